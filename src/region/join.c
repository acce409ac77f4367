/*
 * join.c
 *		dc_region_join(), dc_region_refresh(): the links between regions. dc_region_wait_copied(): waiting
 *		until they have copied their tables.
 *
 * Copyright (c) 2026, the dcounter developers
 *
 * A link is a subscription of this database to a publication of another one (publication.c).
 * CREATE SUBSCRIPTION creates a slot there, and so cannot run in a transaction, nor in a function.
 * So these return statements, for psql's \gexec. They write nothing, and return text: running it
 * needs the rights for it.
 *
 *		dc_from_PEER		the permanent link from a region
 *		dc_refresh_PEER		a copy of all that it knows, dropped when that is complete
 *		dc_anew_PEER		replaces a dc_from_PEER that the peer refuses, and takes its name
 *
 * The name of a slot must be unique in the peer's server, which may have other databases, and other
 * subscribers that were restored from a backup. So the name ends with a hash of the peer and of
 * this database's epoch, which no other database has.
 *
 * Joining again replaces a link that the peer refuses (linkerrors.c), because its slot does not
 * exist or is another database's. The new link has another slot: the old slot may still exist, and
 * if it does not, it cannot be dropped from here. The old link is dropped when the new one exists.
 *
 * Rows that are copied go through the merge trigger. So a link can be made at any time, even
 * between databases that have counted already, and again when it was lost.
 *
 * When a link that was made to refresh this database from a peer has copied its tables, that is
 * noted (region_copied).
 *
 * A link can be made while a start is under way, as the confirmations may have to come by it.
 *
 * In a mesh each link brings the rows of its sender, and no link brings those of a retired region.
 * So a database that does not know any other region yet is refreshed from the first one, before the
 * link is created: then it knows all retired regions when heartbeats come (beatmerge.c).
 *
 * The rows of a region should come by one link. More are possible, but two apply workers that write
 * the same rows may deadlock, and do the work twice. A warning says so, if the catalogs show it.
 */
#include "postgres.h"

#include <inttypes.h>

#include "catalog/pg_subscription.h"
#include "common/hashfn.h"
#include "fmgr.h"
#include "funcapi.h"
#include "replication/logicallauncher.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/tuplestore.h"

#include "base/args.h"
#include "base/clock.h"
#include "base/compat.h"
#include "core/table/catalog.h"
#include "region/life.h"
#include "region/link.h"

PG_FUNCTION_INFO_V1(dc_region_join);
PG_FUNCTION_INFO_V1(dc_region_refresh);
PG_FUNCTION_INFO_V1(dc_region_wait_copied);

#define LINK_LOOK_AGAIN_MS 100
#define TELL_AGAIN_MS 30000

/* This database's role in the topology, and which publication of the peer it needs. */
typedef struct DcTopology
{
	const char *name;
	const char *publication;
	bool single; /* there is no other link */
} DcTopology;

static const DcTopology topologies[] = {
	{"mesh", PUBLICATION_OWN, false}, /* each region has a link from each other one */
	{"hub", PUBLICATION_OWN, false},  /* this is the hub of a star, the peer is a leaf; */
	{"leaf", PUBLICATION_ALL, true},  /* the other way round */
	{"ring", PUBLICATION_ALL, true},  /* the peer is the region before this one */
	{"tree", PUBLICATION_ALL, false}, /* the peer is next to this */
};

static const DcTopology *topology_arg(FunctionCallInfo fcinfo, int argno);
static void check_trust(bool trusted);
static char *peer_arg(FunctionCallInfo fcinfo, const DcIdentity *identity);
static char *slot_name(const DcIdentity *identity, const char *peer, const char *how);
static char *create_link(const char *link, const char *conninfo, const char *publication, const char *slot);
static bool is_dumped(const Subscription *link, const char *slot);
static void drop_link(FunctionCallInfo fcinfo, const Subscription *link, const char *slot);
static void join_put(FunctionCallInfo fcinfo, char *statement);
static void put_instead(FunctionCallInfo fcinfo, const Subscription *link, const char *peer, const char *create);
static void put_refresh(FunctionCallInfo fcinfo, const DcIdentity *identity, const char *peer, const char *conninfo);
static char *known_conninfo(const char *peer);
static void warn_of_paths(const char *peer, const DcTopology *topology);
static void known_columns(DcCatRow *io, void *data);
static bool join_is_known(const char *peer);
static int join_look(const char *name, char **waiting);
static List *links_named(const char *name);
static void prevent_stranger(const char *name);
static const char *refreshed_from(const char *name);

/*
 * dc_region_join(peer text, conninfo text [, anew boolean], topology text, trust_owners boolean) ->
 * setof text: the statements that create a link from another region, or update an existing one: its
 * connection, its tables. A link to another publication is dropped and created again, as is any
 * link with `anew`. The statements that copy all that the peer knows come before the first link.
 *
 * Errors: 22004, 22023 for an invalid peer or topology, 55000 if this database is not in a region,
 * or needs a new epoch, or, before PostgreSQL 16, the owners of tables are not trusted.
 */
Datum
dc_region_join(PG_FUNCTION_ARGS)
{
	const DcTopology *topology;
	DcIdentity identity;
	Subscription *found;
	char *peer;
	char *conninfo;
	char *link;
	char *slot;
	int next = PG_NARGS() - 2;
	bool trust_owners;
	bool anew;

	arg_not_null(fcinfo, 1, "conninfo");
	anew = next > 2 && bool_arg(fcinfo, 2, "anew");
	topology = topology_arg(fcinfo, next);
	trust_owners = bool_arg(fcinfo, next + 1, "trust_owners");
	region_identity_received(&identity);
	peer = peer_arg(fcinfo, &identity);
	conninfo = text_to_cstring(PG_GETARG_TEXT_PP(1));
	check_trust(trust_owners);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (!publications_are_complete())
		join_put(fcinfo, psprintf("SELECT %s()", quote_qualified_identifier(get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid)), "dc_region_publish")));
	warn_of_paths(peer, topology);
	link = psprintf(LINK_PREFIX "%s", peer);
	slot = slot_name(&identity, peer, "from");
	prevent_stranger(link);
	found = link_find(link);
	if (found != NULL && found->enabled && found->slotname != NULL && link_is_refused(found))
	{
		if (strcmp(found->slotname, slot) == 0)
			slot = slot_name(&identity, peer, "anew");
		put_instead(fcinfo, found, peer, create_link(psprintf(ANEW_PREFIX "%s", peer), conninfo, topology->publication, slot));
		PG_RETURN_NULL();
	}
	if (found != NULL && (anew || found->slotname == NULL || is_dumped(found, slot) || !link_brings(found, topology->publication)))
	{
		drop_link(fcinfo, found, slot);
		found = NULL;
	}
	if (found == NULL && strcmp(topology->publication, PUBLICATION_OWN) == 0 && !region_has_others(identity.region))
		put_refresh(fcinfo, &identity, peer, conninfo);
	if (found == NULL)
		join_put(fcinfo, create_link(link, conninfo, topology->publication, slot));
	else
	{
		join_put(fcinfo, psprintf("ALTER SUBSCRIPTION %s CONNECTION %s", link, quote_literal_cstr(conninfo)));
		if (!found->enabled)
			join_put(fcinfo, psprintf("ALTER SUBSCRIPTION %s ENABLE", link));
		join_put(fcinfo, psprintf("ALTER SUBSCRIPTION %s REFRESH PUBLICATION", link));
	}
	PG_RETURN_NULL();
}

/*
 * dc_region_refresh(peer text, conninfo text, trust_owners boolean) -> setof text: the statements
 * that copy all that a peer knows, including rows of other regions and of this one. Without
 * conninfo, that of the link from the peer is used.
 *
 * Errors: 22004, 22023 for an invalid peer, 42501 if the caller may not read the link's conninfo,
 * 42704 if there is no link, 55000 as for dc_region_join().
 */
Datum
dc_region_refresh(PG_FUNCTION_ARGS)
{
	DcIdentity identity;
	char *peer;
	char *conninfo;
	bool trust_owners = bool_arg(fcinfo, 2, "trust_owners");

	region_identity_received(&identity);
	peer = peer_arg(fcinfo, &identity);
	conninfo = PG_ARGISNULL(1) ? known_conninfo(peer) : text_to_cstring(PG_GETARG_TEXT_PP(1));
	check_trust(trust_owners);
	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	put_refresh(fcinfo, &identity, peer, conninfo);
	PG_RETURN_NULL();
}

/*
 * Raise 55000 before PostgreSQL 16, unless all owners of tables are trusted. There an apply worker
 * does everything as the owner of its subscription, a superuser. It runs code that the owner of a
 * table has put on it: triggers that are ENABLE REPLICA or ALWAYS, of which those with lesser names
 * fire before that of dcounter; defaults of columns that are not sent; domains, whose checks run
 * when a value is read. An extension can do nothing before these. The tables are not known in
 * advance: the peer names them, and tables that are added later are fed at once. From 16 on, with
 * run_as_owner = false, that code runs as the owner of the table, in a security-restricted
 * operation.
 */
static void
check_trust(bool trusted)
{
	if (COMPAT_APPLY_IS_SUBSCRIBER && !trusted)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("before PostgreSQL 16, links between regions require trust in the owners of tables"),
				 errdetail("Rows are applied as the owner of the subscription, a superuser, so code that the owner of any table adds to it, such as a trigger, may run as a superuser."),
				 errhint("If you trust all owners of tables in this database as you trust a superuser, use trust_owners => true. Otherwise use PostgreSQL 16 or later.")));
}

/*
 * put_instead returns the statements that replace a link that the peer refuses, if the new one can
 * be made.
 */
static void
put_instead(FunctionCallInfo fcinfo, const Subscription *link, const char *peer, const char *create)
{
	join_put(fcinfo, unconstify(char *, create));
	join_put(fcinfo, psprintf("DO $$ BEGIN IF EXISTS (SELECT FROM pg_catalog.pg_subscription AS s JOIN pg_catalog.pg_database AS d ON d.oid OPERATOR(pg_catalog.=) s.subdbid"
							  " WHERE s.subname OPERATOR(pg_catalog.=) '" ANEW_PREFIX "%s' AND d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()) THEN"
							  " ALTER SUBSCRIPTION %s DISABLE; ALTER SUBSCRIPTION %s SET (slot_name = NONE); DROP SUBSCRIPTION %s;"
							  " ALTER SUBSCRIPTION " ANEW_PREFIX "%s RENAME TO %s; END IF; END $$",
							  peer, link->name, link->name, link->name, peer, link->name));
	ereport(NOTICE,
			(errmsg("region \"%s\" refuses subscription \"%s\", which is replaced by another one", peer, link->name),
			 errhint("If replication slot \"%s\" still exists, drop it.", link->slotname)));
}

/*
 * put_refresh returns the statements that copy all that a peer knows.
 */
static void
put_refresh(FunctionCallInfo fcinfo, const DcIdentity *identity, const char *peer, const char *conninfo)
{
	char *schema = get_namespace_name(get_func_namespace(fcinfo->flinfo->fn_oid));
	char *link = psprintf(REFRESH_PREFIX "%s", peer);
	char *slot = slot_name(identity, peer, "refresh");
	Subscription *found;

	prevent_stranger(link);
	found = link_find(link);
	if (found != NULL) /* one that was interrupted */
		drop_link(fcinfo, found, slot);
	join_put(fcinfo, create_link(link, conninfo, PUBLICATION_ALL, slot));
	join_put(fcinfo, psprintf("CALL %s(%s)", quote_qualified_identifier(schema, "dc_region_wait_copied"), quote_literal_cstr(link)));
	join_put(fcinfo, psprintf("DROP SUBSCRIPTION %s", link));
}

/*
 * Return the topology that an argument names; an error if there is none of that name.
 */
static const DcTopology *
topology_arg(FunctionCallInfo fcinfo, int argno)
{
	char *name;

	arg_not_null(fcinfo, argno, "topology");
	name = text_to_cstring(PG_GETARG_TEXT_PP(argno));
	for (int i = 0; i < lengthof(topologies); i++)
	{
		if (strcmp(topologies[i].name, name) == 0)
			return &topologies[i];
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid topology: \"%s\"", name),
			 errdetail("The topology says what this database is to the peer: \"mesh\", \"hub\" or \"leaf\" of a star, \"ring\" or \"tree\".")));
}

/*
 * Return the first argument, the name of another region; an error if it is this one's.
 */
static char *
peer_arg(FunctionCallInfo fcinfo, const DcIdentity *identity)
{
	char *peer;

	arg_not_null(fcinfo, 0, "peer");
	peer = text_to_cstring(PG_GETARG_TEXT_PP(0));
	region_check_name(peer);
	if (strcmp(peer, identity->region) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("this database itself belongs to region \"%s\"", peer)));
	return peer;
}

/*
 * slot_name returns the name of the slot at the peer: dc_eu_from_us_ and 16 digits.
 */
static char *
slot_name(const DcIdentity *identity, const char *peer, const char *how)
{
	uint64 hash = hash_bytes_extended((const unsigned char *) peer, strlen(peer), identity->epoch);

	return psprintf("dc_%.*s_%s_%.*s_%016" PRIx64,
					SLOT_REGION_BYTES, identity->region, how, SLOT_REGION_BYTES, peer, hash);
}

/*
 * Return the statement that creates a link. `link`, `publication` and `slot` are identifiers
 * already.
 */
static char *
create_link(const char *link, const char *conninfo, const char *publication, const char *slot)
{
	return psprintf("CREATE SUBSCRIPTION %s CONNECTION %s PUBLICATION %s"
					" WITH (copy_data = true, streaming = off, two_phase = off, slot_name = %s" COMPAT_LINK_OPTIONS ")",
					link, quote_literal_cstr(conninfo), publication, slot);
}

/*
 * is_dumped returns true if a link has come with a dump: it is disabled, and its slot belongs to
 * the epoch of the database that was dumped, which may still be running.
 */
static bool
is_dumped(const Subscription *link, const char *slot)
{
	return !link->enabled && link->slotname != NULL && strcmp(link->slotname, slot) != 0;
}

/*
 * drop_link returns the statements that drop a link, including its slot, unless that may be another
 * database's.
 */
static void
drop_link(FunctionCallInfo fcinfo, const Subscription *link, const char *slot)
{
	if (is_dumped(link, slot))
	{
		join_put(fcinfo, psprintf("ALTER SUBSCRIPTION %s SET (slot_name = NONE)", link->name));
		ereport(NOTICE,
				(errmsg("replication slot \"%s\" is left at the peer", link->slotname),
				 errhint("Drop it if the database that subscription \"%s\" was dumped from is gone.", link->name)));
	}
	join_put(fcinfo, psprintf("DROP SUBSCRIPTION %s", link->name));
}

/*
 * Add a statement to the result.
 */
static void
join_put(FunctionCallInfo fcinfo, char *statement)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Datum value = CStringGetTextDatum(statement);
	bool isnull = false;

	tuplestore_putvalues(result->setResult, result->setDesc, &value, &isnull);
}

/*
 * known_conninfo returns the conninfo of the link from a peer, if the current user may read it: it
 * may have a password.
 */
static char *
known_conninfo(const char *peer)
{
	Subscription *found = link_find(psprintf(LINK_PREFIX "%s", peer));

	if (pg_attribute_aclcheck(SubscriptionRelationId, Anum_pg_subscription_subconninfo, GetUserId(), ACL_SELECT) != ACLCHECK_OK &&
		pg_class_aclcheck(SubscriptionRelationId, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to read the connection string of a subscription"),
				 errhint("Specify conninfo.")));
	if (found == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("there is no link from region \"%s\"", peer),
				 errhint("Specify conninfo.")));
	return compat_subscription_conninfo(found);
}

/*
 * warn_of_paths warns if rows of the same regions come by another link as well: if a node that
 * should have one link has two, or if a region that is known already can only be known by another
 * link.
 */
static void
warn_of_paths(const char *peer, const DcTopology *topology)
{
	char *link = psprintf(LINK_PREFIX "%s", peer);
	ListCell *lc;

	foreach(lc, links_all())
	{
		Subscription *other = lfirst(lc);
		bool all = link_brings(other, PUBLICATION_ALL);

		if (strcmp(other->name, link) == 0 ||
			strncmp(other->name, REFRESH_PREFIX, strlen(REFRESH_PREFIX)) == 0 ||
			!(topology->single || (all && join_is_known(peer))))
			continue;
		ereport(WARNING,
				(errmsg("rows of the same regions may arrive from \"%s\" and through subscription \"%s\"", peer, other->name),
				 errdetail("They are merged only once, but apply workers that write the same rows may deadlock, which is logged and retried.")));
		break;
	}
}

/*
 * Read the first column of dcounter.region, which is all that is needed here.
 */
static void
known_columns(DcCatRow *io, void *data)
{
	cat_string(io, (char **) data);
}

/*
 * Return true if this database knows a region.
 */
static bool
join_is_known(const char *peer)
{
	static const DcCatalog beats = {
		.table = "region", .pkey = "region_pkey", .nkeys = 1, .size = sizeof(char *), .columns = known_columns};
	char *region;

	return cat_read(&beats, &region, CStringGetTextDatum(peer));
}

/*
 * dc_region_wait_copied(subscription text), a procedure: waits until a link has copied all its
 * tables; without a name, until all links have. Meanwhile it holds no snapshot, unless it is called
 * in a transaction block, and says now and then what it waits for. Anybody may wait; but that a
 * link has refreshed this database is noted, which ends the state recopy, so only those may call it
 * for such a link who own it, or the database. The note is a transaction of its own, unless the
 * call is in a block, as others cannot publish until that ends.
 *
 * Errors: 42704 if there is no such subscription, 42501 for a link that refreshes, 55000 if it is
 * disabled or has no tables.
 */
Datum
dc_region_wait_copied(PG_FUNCTION_ARGS)
{
	bool atomic = fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic;
	char *name = PG_ARGISNULL(0) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(0));
	MemoryContext cxt = AllocSetContextCreate(PortalContext, "dcounter links", ALLOCSET_SMALL_SIZES);
	DcMoment tell = moment_in(TELL_AGAIN_MS);
	TimestampTz began = GetCurrentTimestamp();
	const char *peer = refreshed_from(name);
	char *waiting = NULL;
	int tables;

	SPI_connect_ext(atomic ? 0 : SPI_OPT_NONATOMIC);
	for (;;)
	{
		MemoryContext old = MemoryContextSwitchTo(cxt);

		tables = join_look(name, &waiting);
		MemoryContextSwitchTo(old);
		if (tables == 0)
			break;
		if (moment_ms_left(tell) <= 0)
		{
			ereport(NOTICE,
					(errmsg("%d tables are not copied yet, some of them of subscription \"%s\"", tables, waiting),
					 errhint("If that does not change, see the server log.")));
			tell = moment_in(TELL_AGAIN_MS);
		}
		MemoryContextReset(cxt);
		if (!atomic)
			SPI_commit();
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, LINK_LOOK_AGAIN_MS,
						 compat_wait_event("DcounterRegionCopy"));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	peer = refreshed_from(name); /* another role may have made another link of that name in the meantime */
	if (peer != NULL && !XactReadOnly)
	{
		region_copied(peer, began);
		if (!atomic)
			SPI_commit();
	}
	SPI_finish();
	MemoryContextDelete(cxt);
	PG_RETURN_VOID();
}

/*
 * join_look counts the tables that are not copied; *waiting is a subscription of them.
 */
static int
join_look(const char *name, char **waiting)
{
	int tables = 0;
	ListCell *lc;

	InvalidateCatalogSnapshot();
	foreach(lc, links_named(name))
	{
		Subscription *link = lfirst(lc);
		int more = link_not_copied(link);

		if (more == 0)
			continue;
		if (!link->enabled)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("subscription \"%s\" is disabled", link->name)));
		if (max_logical_replication_workers == 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("no tables can be copied: max_logical_replication_workers is 0"),
					 errhint("Increase max_logical_replication_workers and restart the server.")));
		tables += more;
		*waiting = link->name;
	}
	InvalidateCatalogSnapshot();
	return tables;
}

/*
 * links_named returns the subscription of a name (42704 if there is none), or all links if it is
 * NULL.
 */
static List *
links_named(const char *name)
{
	Subscription *link;

	if (name == NULL)
		return links_all();
	link = link_find_any(name);
	if (link == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("subscription \"%s\" does not exist", name)));
	return list_make1(link);
}

/*
 * Raise 42501 if a subscription of a link's name exists that cannot be a link. The statements would
 * give it the connection string, which its owner could use.
 */
static void
prevent_stranger(const char *name)
{
	const Subscription *link = link_find_any(name);

	if (link != NULL && !link_is_trusted(link))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("subscription \"%s\" cannot be a link: role \"%s\" may not write rows of regions",
						name, GetUserNameFromId(link->owner, true)),
				 errhint("Drop or rename the subscription, or change its owner.")));
}

/*
 * Return the region from which a subscription refreshes this database, if it exists and is made for
 * that; otherwise NULL. Raise 42501 if the caller owns neither it nor the database, or if its owner
 * could not have copied anything, and 55000 if it has no tables.
 */
static const char *
refreshed_from(const char *name)
{
	const Subscription *link;

	if (name == NULL || strncmp(name, REFRESH_PREFIX, strlen(REFRESH_PREFIX)) != 0)
		return NULL;
	link = link_find_any(name);
	if (link == NULL)
		return NULL; /* nobody's, so nobody may note anything for it */
	if (!has_privs_of_role(GetUserId(), link->owner) && !compat_owns_database(MyDatabaseId, GetUserId()))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of subscription \"%s\" or of the database to note that it has copied its tables", name)));
	prevent_stranger(name);
	if (link_tables(link, false) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("subscription \"%s\" has no tables", name),
				 errhint("Use ALTER SUBSCRIPTION ... REFRESH PUBLICATION.")));
	return name + strlen(REFRESH_PREFIX);
}
