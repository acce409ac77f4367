# dcounter: build with PGXS (make, make install, make installcheck),
# developer targets below (make help lists them).

# Targets that call a script. They work before PostgreSQL is installed.
OWN = help deps check check-memory lint checkver demo live bench torture chaos owners fuzz clean-all

ifneq (,$(filter $(OWN),$(MAKECMDGOALS)))

# PGXS is not included here: it may not be installed yet, and it defines a
# "check" of its own. Other goals of the same call get a make of their own.
OTHERS = $(filter-out $(OWN),$(MAKECMDGOALS))

.NOTPARALLEL:
.PHONY: $(OWN) $(OTHERS)

help:
	@echo 'make, make install, make installcheck   as with any extension'
	@echo 'make deps       install what building and testing need (apt-get)'
	@echo 'make check      build, install and run every test'
	@echo 'make lint       the style and consistency checks alone'
	@echo 'make checkver   do control file, META.json and CHANGELOG.md agree?'
	@echo 'make check-memory   the tests on a server that finds errors of memory'
	@echo 'make demo       one hot key: UPDATE against dc_incr'
	@echo 'make live       a page with live numbers, until Ctrl-C'
	@echo 'make bench      the benchmarks, written to doc/benchmarks.md'
	@echo 'make torture    the long crash and concurrency tests'
	@echo 'make chaos      random transactions and faults over all rooms (CHAOS_TIME=120 s)'
	@echo 'make owners     an owner who does his worst to his own tables (OWNERS_TIME=120 s)'
	@echo 'make fuzz       the fuzzers of the algorithms (FUZZ_TIME=600 s each)'
	@echo 'make clean-all  remove everything built, without PGXS'

deps:
	@bash test/deps.sh build test bench
check:
	@bash test/check.sh
check-memory:
	@bash test/memory.sh
lint:
	@bash test/lint.sh
checkver:
	@bash test/lint.sh versions
demo:
	@bash bench/demo.sh
live:
	@bash examples/live/live.sh
bench:
	@bash bench/bench.sh
torture:
	@bash test/torture.sh
chaos:
	@bash test/chaos.sh
owners:
	@bash test/chaos.sh owners
fuzz:
	@bash test/fuzz.sh
clean-all:
	find src test/unit -name '*.o' -delete -o -name '*.bc' -delete 2>/dev/null || true
	rm -rf test/fuzz/build
	rm -rf dcounter.so src/relay/dc_relay results output_iso tmp_check tmp_check_iso log
	rm -f regression.diffs regression.out
	find sql -maxdepth 1 -name 'dcounter--*.sql' ! -name 'dcounter--*--*.sql' -delete

$(OTHERS):
	@$(MAKE) --no-print-directory $@

else

EXTENSION = dcounter
EXTVERSION := $(shell sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" dcounter.control)

MODULE_big = dcounter
RELAY = src/relay/dc_relay
RELAY_OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/relay/*.c)))
OBJS = $(filter-out $(RELAY_OBJS),$(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c src/*/*/*.c))))
PG_CPPFLAGS = -I$(srcdir)/src -DDCOUNTER_VERSION='"$(EXTVERSION)"'

# The install script is its parts in order; upgrade steps are frozen files.
SQL_PARTS = $(sort $(wildcard sql/parts/*.sql))
SQL_SCRIPT = sql/dcounter--$(EXTVERSION).sql
DATA_built = $(SQL_SCRIPT)
DATA = $(wildcard sql/dcounter--*--*.sql)

# Inputs are in test/sql and test/specs, outputs in ./expected: pg_regress 15
# looks there because it is below the output folder ("."), 16 and later because
# it is the default of --expecteddir. Isolation specs are named iso_* since both
# kinds share ./expected and ./results. The first of either kind, "install", makes the
# extension and sends the worker of a preloaded server away.
REGRESS = $(shell grep -E '^[a-z0-9_]+$$' test/regress.list)
REGRESS_OPTS = --inputdir=test
ISOLATION = iso_install $(filter-out iso_install,$(patsubst test/specs/%.spec,%,$(sort $(wildcard test/specs/iso_*.spec))))
ISOLATION_OPTS = --inputdir=test --outputdir=.

# With TAP_TESTS set, installcheck would run the TAP tests too. They start
# servers of their own and need the test Perl modules, so they run on request
# (make installcheck TAP=1) and from make check.
ifdef TAP
TAP_TESTS = 1
PROVE_TESTS = test/t/*.pl
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

# One rule for all headers: a stale object costs more than a full build.
$(OBJS) $(OBJS:.o=.bc) $(RELAY_OBJS): $(wildcard src/*.h src/*/*.h src/*/*/*.h) dcounter.control

# Loops over registers and cells are for the vector unit.
src/sketch/%.o: CFLAGS += $(CFLAGS_VECTORIZE)

# dc_relay is a program of its own, with libpq. PGXS makes either a module or a
# program, so these rules are beside its own.
$(RELAY_OBJS): override CPPFLAGS += -I$(libpq_srcdir)
$(RELAY): $(RELAY_OBJS)
	$(CC) $(CFLAGS) $(RELAY_OBJS) $(LDFLAGS) $(LDFLAGS_EX) $(libpq) -o $@

all: $(RELAY)
install: install-relay
uninstall: uninstall-relay
clean: clean-relay

.PHONY: install-relay uninstall-relay clean-relay
install-relay: $(RELAY)
	$(MKDIR_P) '$(DESTDIR)$(bindir)'
	$(INSTALL_PROGRAM) $(RELAY) '$(DESTDIR)$(bindir)/dc_relay'
uninstall-relay:
	rm -f '$(DESTDIR)$(bindir)/dc_relay'
clean-relay:
	rm -f $(RELAY) $(RELAY_OBJS)

# The folder is a prerequisite so that a removed part is noticed.
$(SQL_SCRIPT): $(SQL_PARTS) sql/parts dcounter.control
	cat $(SQL_PARTS) > $@

endif
