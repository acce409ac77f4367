# dcounter: build with PGXS (make, make install, make installcheck),
# developer targets below (make help lists them).

# Targets that call a script. They work before PostgreSQL is installed.
OWN = help deps test check check-memory check-versions check-package check-s390x lint checkver lite dist demo live bench torture chaos owners fuzz clean-all

# The tree, from the folder that make runs in: "." or, where that is another one
# (make -f ../Makefile, or pg_buildext of Debian), a path to it. PGXS knows it as
# srcdir, but only from its own file on.
TREE := $(patsubst %/,%,$(dir $(firstword $(MAKEFILE_LIST))))

ifneq (,$(filter $(OWN),$(MAKECMDGOALS)))

EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" $(TREE)/dcounter.control)

# PGXS is not included here: it may not be installed yet, and it defines a
# "check" of its own. Other goals of the same call get a make of their own.
OTHERS = $(filter-out $(OWN),$(MAKECMDGOALS))

.NOTPARALLEL:
.PHONY: $(OWN) $(OTHERS)

help:
	@echo 'make, make install, make installcheck   as with any extension'
	@echo 'make deps       install what building and testing need (apt-get)'
	@echo 'make test T=once    the tests of a room (stock), of a name (once_retry), or several (T="once stock/crash")'
	@echo 'make check      build, install and run every test'
	@echo 'make lint       the style and consistency checks alone'
	@echo 'make checkver   do control file, META.json and CHANGELOG.md agree?'
	@echo 'make check-memory   the tests on a server that finds errors of memory'
	@echo 'make check-versions the tests on PostgreSQL 17, 18 and 19, the packages and s390x, in folders that debootstrap makes'
	@echo 'make lite       dcounter_lite, for servers where no library can be installed: lite/build'
	@echo 'make dist       dcounter-$(EXTVERSION).zip, as PGXN takes it'
	@echo 'make check-package FOLDER=...   the Debian packages, in a folder that debootstrap has made'
	@echo 'make check-s390x    the unit tests with bytes the other way around, by qemu, in a folder that debootstrap makes'
	@echo 'make demo       one hot key: UPDATE against dc_incr'
	@echo 'make live       a page with live numbers, until Ctrl-C'
	@echo 'make bench      the benchmarks, written to doc/benchmarks.md'
	@echo 'make torture    the long crash and concurrency tests'
	@echo 'make chaos      random transactions and faults over all rooms (CHAOS_TIME=120 s)'
	@echo 'make owners     an owner who does his worst to his own tables (OWNERS_TIME=120 s)'
	@echo 'make fuzz       the fuzzers of the algorithms (FUZZ_TIME=600 s each)'
	@echo 'make clean-all  remove everything built, without PGXS'

deps:
	@cd $(TREE) && bash test/deps.sh build test bench
test:
	@cd $(TREE) && T='$(T)' bash test/one.sh
check:
	@cd $(TREE) && bash test/check.sh
check-package:
	@cd $(TREE) && bash test/package.sh $(FOLDER)
check-s390x:
	@cd $(TREE) && CHECK_ONLY=s390x bash test/versions.sh
check-memory:
	@cd $(TREE) && bash test/memory.sh
check-versions:
	@cd $(TREE) && bash test/versions.sh
lint:
	@cd $(TREE) && bash test/lint.sh
lite:
	@cd $(TREE) && bash lite/build.sh
# What PGXN takes: the files of the last commit, and its install script, which META.json names, and dcounter_lite. Not those of the tree, which may have changed.
dist:
	folder=$$(mktemp -d) && cd $(TREE) && git archive HEAD sql/parts | tar -xOf - >$$folder/dcounter--$(EXTVERSION).sql && \
		git archive HEAD lite dcounter.control | tar -xf - -C $$folder && bash $$folder/lite/build.sh && \
		git archive --format=zip --prefix=dcounter-$(EXTVERSION)/sql/ --add-file=$$folder/dcounter--$(EXTVERSION).sql \
		--prefix=dcounter-$(EXTVERSION)/lite/build/ $$(printf -- '--add-file=%s ' $$folder/lite/build/*) \
		--prefix=dcounter-$(EXTVERSION)/ -o $(CURDIR)/dcounter-$(EXTVERSION).zip HEAD && rm -r $$folder
checkver:
	@cd $(TREE) && bash test/lint.sh versions
demo:
	@cd $(TREE) && bash bench/demo.sh
live:
	@cd $(TREE) && bash examples/live/live.sh
bench:
	@cd $(TREE) && bash bench/bench.sh
torture:
	@cd $(TREE) && bash test/torture.sh
chaos:
	@cd $(TREE) && bash test/chaos.sh
owners:
	@cd $(TREE) && bash test/chaos.sh owners
fuzz:
	@cd $(TREE) && bash test/fuzz.sh
clean-all:
	find src bin test/unit -name '*.o' -delete -o -name '*.bc' -delete 2>/dev/null || true
	rm -rf test/fuzz/build
	rm -rf dcounter.so bin/dc_relay/dc_relay bin/dc_region/dc_region results output_iso tmp_check tmp_check_iso log
	rm -rf lite/build
	rm -f regression.diffs regression.out sql/dcounter--$(EXTVERSION).sql dcounter-$(EXTVERSION).zip

$(OTHERS):
	@$(MAKE) --no-print-directory -f $(firstword $(MAKEFILE_LIST)) $@

else

EXTENSION = dcounter
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" $(TREE)/dcounter.control)

# sources WILDCARD...: files of the tree, by their names in it
sources = $(sort $(patsubst $(TREE)/%,%,$(wildcard $(addprefix $(TREE)/,$(1)))))

MODULE_big = dcounter
PROGRAMS = bin/dc_relay/dc_relay bin/dc_region/dc_region
PROGRAM_OBJS = $(patsubst %.c,%.o,$(call sources,bin/*/*.c))
SOURCES = $(call sources,src/*.c src/*/*.c src/*/*/*.c src/*/*/*/*.c)
OBJS = $(SOURCES:.c=.o)

# "make unity=yes" compiles each folder as one unit, in half the time: most of what a file takes is its headers. So no two files of a
# folder define one name.
ifeq ($(unity),yes)
OBJS = $(addsuffix unity.o,$(sort $(dir $(SOURCES))))
endif

# Only what SQL calls is exported (src/base/compat.h); from 16 on PGXS says so itself.
PG_CFLAGS = -fvisibility=hidden
PG_CPPFLAGS = -I$(TREE)/src -DDCOUNTER_VERSION='"$(EXTVERSION)"'

# The install script is its parts in order; upgrade steps, and what releases before
# this one have installed, are frozen files.
SQL_PARTS = $(addprefix $(TREE)/,$(call sources,sql/parts/*.sql))
SQL_SCRIPT = sql/dcounter--$(EXTVERSION).sql
DATA_built = $(SQL_SCRIPT)
DATA = $(filter-out $(SQL_SCRIPT),$(call sources,sql/dcounter--*.sql))

# Inputs are in test/sql and test/specs, outputs in ./expected: pg_regress 15
# looks there because it is below the output folder ("."), 16 and later because
# it is the default of --expecteddir. Isolation specs are named iso_* since both
# kinds share ./expected and ./results. The first of either kind, "install", makes the
# extension and sends the worker of a preloaded server away.
#
# Some need a server on which dcounter is preloaded, or which has max_prepared_transactions: make installcheck preloaded=yes prepared=yes
OTHER_SERVERS = $(if $(preloaded),not_preloaded,buffer cache limit presence presence_approx stats iso_limit iso_presence) \
	$(if $(prepared),,prepared iso_prepared iso_%_prepared)
REGRESS = $(filter-out $(OTHER_SERVERS),$(shell grep -E '^[a-z0-9_]+$$' $(TREE)/test/regress.list))
REGRESS_OPTS = --inputdir=$(TREE)/test
ISOLATION = iso_install $(filter-out iso_install $(OTHER_SERVERS),$(patsubst test/specs/%.spec,%,$(call sources,test/specs/iso_*.spec)))
ISOLATION_OPTS = --inputdir=$(TREE)/test --outputdir=.

# With TAP_TESTS set, installcheck would run the TAP tests too. They start
# servers of their own and need the test Perl modules, so they run on request
# (make installcheck TAP=1) and from make check.
ifdef TAP
TAP_TESTS = 1
PROVE_TESTS = $(TREE)/test/t/*/*.pl
endif

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq ($(wildcard $(PGXS)),)
$(error PGXS not found: set PG_CONFIG, or install the server development package, for instance with "make deps")
endif

# A PostgreSQL built with LLVM wants bitcode too, of which it takes functions into compiled queries. Ours are not small enough
# for that, and it takes as long to build as all the rest: only "make with_llvm=yes" makes it.
ifneq ($(with_llvm),yes)
override with_llvm = no
endif

include $(PGXS)

# What is exported all the same is not taken from another library that exports the same name. (On macOS it never is.)
ifneq ($(PORTNAME),darwin)
SHLIB_LINK += -Wl,-Bsymbolic
endif

# In a folder of its own: objects are never taken from the tree, which may have been
# built as well, for another server. Sources are.
ifneq ($(TREE),.)
override VPATH :=
override srcdir := $(TREE)
vpath %.c $(TREE)
vpath %.control $(TREE)
BUILD_FOLDERS := $(shell mkdir -p sql $(sort $(dir $(OBJS) $(PROGRAM_OBJS))))
installcheck: expected
expected:
	ln -s $(TREE)/expected $@
endif

# One rule for all headers: a stale object costs more than a full build.
$(OBJS) $(OBJS:.o=.bc) $(PROGRAM_OBJS): $(addprefix $(TREE)/,$(call sources,src/*/*.h src/*/*/*.h src/*/*/*/*.h bin/*/*.h) dcounter.control)

ifeq ($(unity),yes)
.SECONDEXPANSION:
$(OBJS): %unity.o: $$(addprefix $(TREE)/,$$(call sources,$$*[!.]*.c))
	printf '#include "%s"\n' $(filter %.c,$^) | $(CC) $(CFLAGS) $(CPPFLAGS) -c -x c - -o $@
endif

# Loops over registers and cells are for the vector unit.
src/types/sketch/%.o: override CFLAGS += $(CFLAGS_VECTORIZE)

# dc_relay and dc_region are programs of their own, with libpq. PGXS makes either a module or a
# program, so these rules are beside its own.
$(PROGRAM_OBJS): override CPPFLAGS += -I$(TREE) -I$(libpq_srcdir)
bin/dc_relay/dc_relay: $(filter bin/client/% bin/dc_relay/%,$(PROGRAM_OBJS))
bin/dc_region/dc_region: $(filter bin/client/% bin/dc_region/%,$(PROGRAM_OBJS))
$(PROGRAMS):
	$(CC) $(CFLAGS) $^ $(LDFLAGS) $(LDFLAGS_EX) $(libpq) -o $@

# dcounter_lite is installed, too, as an extension that a database can have instead.
LITE_SCRIPT = lite/build/dcounter_lite--$(EXTVERSION).sql
LITE_FOLDER = $(DESTDIR)$(datadir)/extension
$(LITE_SCRIPT): $(addprefix $(TREE)/,$(call sources,lite/parts/*.sql lite/forms/*) lite/build.sh lite/parts dcounter.control)
	bash $(TREE)/lite/build.sh lite/build

all: $(PROGRAMS) $(LITE_SCRIPT)
install: install-programs install-lite
uninstall: uninstall-programs uninstall-lite
clean: clean-programs clean-lite

.PHONY: install-programs uninstall-programs clean-programs install-lite uninstall-lite clean-lite
install-lite: $(LITE_SCRIPT)
	$(MKDIR_P) '$(LITE_FOLDER)'
	$(INSTALL_DATA) lite/build/dcounter_lite.control $(LITE_SCRIPT) '$(LITE_FOLDER)'
uninstall-lite:
	rm -f '$(LITE_FOLDER)/dcounter_lite.control' '$(LITE_FOLDER)/dcounter_lite--$(EXTVERSION).sql'
clean-lite:
	rm -rf lite/build
install-programs: $(PROGRAMS)
	$(MKDIR_P) '$(DESTDIR)$(bindir)' '$(DESTDIR)$(mandir)/man1'
	$(INSTALL_PROGRAM) $(PROGRAMS) '$(DESTDIR)$(bindir)'
	$(INSTALL_DATA) $(patsubst %,$(TREE)/doc/%.1,$(notdir $(PROGRAMS))) '$(DESTDIR)$(mandir)/man1'
uninstall-programs:
	rm -f $(patsubst %,'$(DESTDIR)$(bindir)/%',$(notdir $(PROGRAMS))) $(patsubst %,'$(DESTDIR)$(mandir)/man1/%.1',$(notdir $(PROGRAMS)))
clean-programs:
	rm -f $(PROGRAMS) $(PROGRAM_OBJS)

# The folder is a prerequisite so that a removed part is noticed.
$(SQL_SCRIPT): $(SQL_PARTS) $(TREE)/sql/parts $(TREE)/dcounter.control
	cat $(SQL_PARTS) > $@

endif
