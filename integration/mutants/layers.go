package main

import (
	"path"
	"path/filepath"
	"strings"
)

// The layers: first the tests that exist only in this repository, last those that any user can run.
var layers = []string{"own tests", "conformance", "torture"}

// tests selects tests of a package. The zero value selects no tests.
type tests struct {
	folder, run, skip string
	slow              bool // including the tests that take minutes
	// then, unless nil, selects further tests, which run if these do not notice the mutant.
	then *tests
}

// area is a set of files that the same tests cover.
type area struct {
	prefix string // of the files' paths
	// busy names a server or a disk that only one mutant at a time may use.
	busy   string
	layers [3]tests
}

// underTorture is this package's torture test, over memory and in virtual time.
var underTorture = tests{folder: "integration/mutants", run: "^TestTorture_memory$"}

// A change to the core or to the kit's rules has to pass the suite over memory twice: in virtual time,
// and with a clock that can be moved. A change to the kit's records has to pass the suite over files.
var (
	overMemory = tests{folder: "providers/memory", run: "^TestConformance(InVirtualTime|OnAClockOfItsOwn)$"}
	overFiles  = tests{folder: "providers/file", run: "^TestConformance$"}
	overSQLite = tests{folder: "providers/sql/sqlite", run: "^TestConformance$"}
	overCosmos = tests{folder: "providers/cosmos", run: "^TestConformanceFake(Expiring)?$"}
	overRedis  = tests{folder: "providers/redis", run: "^TestConformanceRedis$"}
	// overStores is the suite over stores in memory: one reports whole seconds, one reports no
	// time, and one has leases.
	overStores = tests{folder: "abstractions/providerkit/cas", run: "^TestConformanceOfRecords$", then: &overCosmos}
	// ruleTests select the suites that cover the rules, which Redis implements a second time. Files
	// and SQLite need rules that memory does not need.
	ruleTests     = tests{folder: overMemory.folder, run: overMemory.run, then: &tests{folder: overFiles.folder, run: overFiles.run, then: &sqliteOrRedis}}
	sqliteOrRedis = tests{folder: overSQLite.folder, run: overSQLite.run, then: &overRedis}
	redlocks      = tests{folder: "providers/redis", run: "^TestConformanceRedlock3(Dead|Restored)?$", slow: true}
	overPostgres  = tests{folder: "providers/sql/postgres", run: "^TestConformance(WithoutHistory)?$"}
	ownCore       = tests{folder: "internal/managertest", then: &tests{folder: "."}}
	ownCommand    = ownTests("cmd/leasing")
	// ownKit are the tests of the rules, and then those of the records, which apply the rules.
	ownKit      = tests{folder: "abstractions/providerkit", skip: suites, then: &ownStores}
	ownStores   = ownTests("abstractions/providerkit/cas")
	ownPostgres = ownTests("providers/sql/postgres")
	ownSQLite   = ownTests("providers/sql/sqlite")
	// dialectTests are the tests of all SQL dialects, which exercise the code that they share.
	dialectTests = tests{folder: ownSQLite.folder, skip: ownSQLite.skip, then: &tests{folder: ownPostgres.folder, skip: ownPostgres.skip, then: &mariadbs[0]}}
	mariadbs     = [3]tests{ownTests("providers/sql/mysql"), {folder: "providers/sql/mysql", run: "^TestConformance_mariadb$"}}
	// sequences is the suite of package sequencetest, which any store can run.
	sequences = tests{folder: "sequence/memsequence", run: "^TestConformance_memory$"}
)

// suites matches the names of tests that run a conformance suite.
const suites = "Conformance"

func ownTests(folder string) tests { return tests{folder: folder, skip: suites} }

// packageTests selects the tests of a package of the core, and then those of the manager.
func packageTests(folder string) tests { return tests{folder: folder, then: &ownCore} }

// commandTests selects the tests of a package within the command, and then those of the command
// itself.
func commandTests(name string) tests {
	return tests{folder: "cmd/leasing/internal/" + name, then: &ownCommand}
}

// areas are searched in this order. The tests of changed Redis scripts leave out the comparison with
// their stored texts, which would notice any change.
var areas = []area{
	{"abstractions/providerkit/cas/sweep.go", "file", [3]tests{ownStores, overFiles}},
	{"abstractions/providerkit/cas/", "", [3]tests{ownStores, overStores}},
	{"abstractions/providerkit/disk/", "", [3]tests{ownTests("abstractions/providerkit/disk"), ruleTests, underTorture}},
	{"abstractions/providerkit/hostclock/", "file", [3]tests{ownTests("abstractions/providerkit/hostclock"), overFiles}},
	{"abstractions/providerkit/livefile/", "", [3]tests{ownTests("abstractions/providerkit/livefile")}},
	{"internal/panics/", "", [3]tests{ownTests("abstractions/providerkit")}},
	{"abstractions/providerkit/wakeup/", "", [3]tests{ownTests("abstractions/providerkit/wakeup"), ruleTests, underTorture}},
	{"abstractions/providerkit/httpguard/", "gofakes3", [3]tests{ownTests("abstractions/providerkit/httpguard"), {folder: "providers/s3", run: "^TestConformanceGofakes3$"}}},
	{"abstractions/providerkit/batch/", "redis", [3]tests{ownTests("abstractions/providerkit/batch"), overRedis}},
	{"abstractions/providerkit/", "", [3]tests{ownKit, ruleTests, underTorture}},
	{"abstractions/errors.go", "", [3]tests{ownTests("abstractions/providerkit"), overMemory}},
	{"abstractions/token.go", "", [3]tests{ownTests("abstractions"), overMemory, underTorture}},
	{"providers/memory/", "", [3]tests{ownTests("providers/memory"), overMemory, underTorture}},
	{"providers/file/", "file", [3]tests{ownTests("providers/file"), overFiles}},
	{"providers/sql/postgres/pgkit/", "postgres", [3]tests{{folder: "providers/sql/postgres/pgkit", then: &ownPostgres}}},
	{"providers/sql/postgres/", "postgres", [3]tests{ownPostgres, overPostgres}},
	{"providers/sql/mysql/", "mariadb", mariadbs},
	{"providers/sql/sqlserver/", "", [3]tests{ownTests("providers/sql/sqlserver")}}, // no server can run here
	{"providers/sql/dialect/server.go", "mariadb", mariadbs},
	{"providers/sql/dialect/", "sqlite", [3]tests{{folder: "providers/sql/dialect", then: &dialectTests}, overSQLite}},
	{"providers/sql/sqlkit/postgres.go", "postgres", [3]tests{{folder: "providers/sql/postgres/pgkit", then: &ownPostgres}, overPostgres}},
	{"providers/sql/", "sqlite", [3]tests{dialectTests, overSQLite}}, // the shared driver, and the classification of errors
	{"providers/redis/internal/redlock/", "redlock", [3]tests{ownTests("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/prelude.lua", "redlock", [3]tests{ownTests("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/redlock/", "redlock", [3]tests{ownTests("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/", "redis", [3]tests{ownTests("providers/redis"), overRedis}},
	{"providers/blob/", "azurite", [3]tests{ownTests("providers/blob"), {folder: "providers/blob", run: "^TestConformanceBlob$"}}},
	{"providers/cosmos/", "cosmos", [3]tests{ownTests("providers/cosmos"), overCosmos}},
	{"providers/consul/", "consul", [3]tests{ownTests("providers/consul"), {folder: "providers/consul", run: "^TestConformance$"}}},
	{"providers/kubernetes/", "kubernetes", [3]tests{ownTests("providers/kubernetes"), {folder: "providers/kubernetes", run: "^TestConformance$"}}},
	{"providers/internal/httpjson/", "kubernetes", [3]tests{ownTests("providers/kubernetes"), {folder: "providers/kubernetes", run: "^TestConformance$"}}},
	{"providers/etcd/", "etcd", [3]tests{ownTests("providers/etcd"), {folder: "providers/etcd", run: "^TestConformance$"}}},
	{"providers/s3/", "s3", [3]tests{ownTests("providers/s3"), {folder: "providers/s3", run: "^TestConformance$"}}},
	{"fencing/sqlfence/", "postgres", [3]tests{ownTests("fencing/sqlfence"), {folder: "integration/fencing"}}},
	{"fencing/internal/cause/", "", [3]tests{ownTests("fencing/redisfence")}},
	{"fencing/redisfence/", "redis", [3]tests{ownTests("fencing/redisfence"), {folder: "integration/fencing"}}},
	{"sequence/memsequence/", "", [3]tests{ownTests("sequence/memsequence"), sequences}},
	{"sequence/sqlsequence/", "sequences", [3]tests{ownTests("sequence/sqlsequence"), {folder: "sequence/sqlsequence", run: "^TestConformance_(sqlite|postgres(_pool)?)$"}}},
	{"sequence/", "", [3]tests{ownTests("sequence"), sequences}},
	{"cmd/leasing/internal/hold/", "command", [3]tests{commandTests("hold")}},
	{"cmd/leasing/internal/descendants/", "command", [3]tests{commandTests("descendants")}},
	{"cmd/leasing/internal/output/", "command", [3]tests{commandTests("output")}},
	{"cmd/leasing/internal/setup/", "command", [3]tests{commandTests("setup")}},
	{"cmd/leasing/", "command", [3]tests{ownCommand}},
	{"internal/engine/handover.go", "", [3]tests{packageTests("internal/engine"), overMemory}}, // torture does not hand over leases
}

// area returns the first area that has the changed file. A file in none of the areas has all three
// layers if it belongs to the core, and otherwise only the tests of its package.
func (m *mutant) area() area {
	if m.asked != nil {
		return *m.asked
	}
	file := m.edits[0].file
	for _, a := range areas {
		if strings.HasPrefix(file, a.prefix) {
			return a
		}
	}
	switch folder := path.Dir(file); {
	case folder == ".":
		return area{layers: [3]tests{ownCore, overMemory, underTorture}}
	case strings.HasPrefix(folder, "internal/"):
		return area{layers: [3]tests{packageTests(folder), overMemory, underTorture}}
	default:
		return area{layers: [3]tests{ownTests(folder)}}
	}
}

// withPackage returns the tests of the file's package, if it has any, and then the given tests.
func withPackage(root, file string, others tests) tests {
	folder := path.Dir(file)
	if found, _ := filepath.Glob(filepath.Join(root, folder, "*_test.go")); len(found) == 0 || folder == others.folder {
		return others
	}
	first := ownTests(folder)
	first.then = &others
	return first
}
