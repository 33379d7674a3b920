package main

import (
	"path"
	"strings"
)

// The layers, from the tests that only this repository has to those that any user can run.
var layers = []string{"own tests", "conformance", "torture"}

// tests are some of the tests of a package. The zero value has no tests.
type tests struct {
	folder, run, skip string
	slow              bool // including the tests that take minutes
	// then are run if these tests do not notice.
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

// A change of the core or of the kit's rules has to pass the suite over memory in virtual time, and with
// a clock that can be moved. A change of the kit's records has to pass the suite over files.
var (
	overMemory = tests{folder: "providers/memory", run: "^TestConformance(InVirtualTime|OnAClockOfItsOwn)$"}
	overFiles  = tests{folder: "providers/file", run: "^TestConformance$"}
	overSQLite = tests{folder: "providers/sql/sqlite", run: "^TestConformance$"}
	overCosmos = tests{folder: "providers/cosmos", run: "^TestConformanceFake(Expiring)?$"}
	overRedis  = tests{folder: "providers/redis", run: "^TestConformanceRedis$"}
	// overStores is the suite over stores in memory: one reports whole seconds, one reports no
	// time, and one has leases.
	overStores = tests{folder: "abstractions/providerkit/cas", run: "^TestConformanceOfRecords$", then: &overCosmos}
	// restated is the suite of the rules, which Redis states a second time. Files and SQLite need
	// rules that memory does not need.
	restated      = tests{folder: overMemory.folder, run: overMemory.run, then: &tests{folder: overFiles.folder, run: overFiles.run, then: &sqliteOrRedis}}
	sqliteOrRedis = tests{folder: overSQLite.folder, run: overSQLite.run, then: &overRedis}
	redlocks      = tests{folder: "providers/redis", run: "^TestConformanceRedlock3(Dead|Restored)?$", slow: true}
	overPostgres  = tests{folder: "providers/sql/postgres", run: "^TestConformance(WithoutHistory)?$"}
	ownCore       = tests{folder: "internal/managertest", then: &tests{folder: "."}}
	ownCommand    = own("cmd/leasing")
	// ownKit are the tests of the rules, and then those of the records, which apply the rules.
	ownKit      = tests{folder: "abstractions/providerkit", skip: suites, then: &ownStores}
	ownStores   = own("abstractions/providerkit/cas")
	ownPostgres = own("providers/sql/postgres")
	ownSQLite   = own("providers/sql/sqlite")
	// ofDialects are the tests of all SQL dialects, which exercise the code that they share.
	ofDialects = tests{folder: ownSQLite.folder, skip: ownSQLite.skip, then: &tests{folder: ownPostgres.folder, skip: ownPostgres.skip, then: &mariadbs[0]}}
	mariadbs   = [3]tests{own("providers/sql/mysql"), {folder: "providers/sql/mysql", run: "^TestConformance_mariadb$"}}
	// sequences is the suite of package sequencetest, which any store can run.
	sequences = tests{folder: "sequence/memsequence", run: "^TestConformance_memory$"}
)

// suites are the tests of a package that run a conformance suite.
const suites = "Conformance"

func own(folder string) tests { return tests{folder: folder, skip: suites} }

// inside are the own tests of a package of the core: its tests, and then those of the manager.
func inside(folder string) tests { return tests{folder: folder, then: &ownCore} }

// inCommand are the own tests of a package of the command, and then those of the command.
func inCommand(name string) tests {
	return tests{folder: "cmd/leasing/internal/" + name, then: &ownCommand}
}

// areas are searched in this order. The own tests of Redis' scripts leave out the
// comparison with their stored texts, which notices any change.
var areas = []area{
	{"abstractions/providerkit/cas/sweep.go", "file", [3]tests{ownStores, overFiles}},
	{"abstractions/providerkit/cas/", "", [3]tests{ownStores, overStores}},
	{"abstractions/providerkit/disk/", "", [3]tests{own("abstractions/providerkit/disk"), restated, underTorture}},
	{"abstractions/providerkit/hostclock/", "file", [3]tests{own("abstractions/providerkit/hostclock"), overFiles}},
	{"abstractions/providerkit/livefile/", "", [3]tests{own("abstractions/providerkit/livefile")}},
	{"internal/panics/", "", [3]tests{own("abstractions/providerkit")}},
	{"abstractions/providerkit/wakeup/", "", [3]tests{own("abstractions/providerkit/wakeup"), restated, underTorture}},
	{"abstractions/providerkit/httpguard/", "gofakes3", [3]tests{own("abstractions/providerkit/httpguard"), {folder: "providers/s3", run: "^TestConformanceGofakes3$"}}},
	{"abstractions/providerkit/batch/", "redis", [3]tests{own("abstractions/providerkit/batch"), overRedis}},
	{"abstractions/providerkit/", "", [3]tests{ownKit, restated, underTorture}},
	{"abstractions/errors.go", "", [3]tests{own("abstractions/providerkit"), overMemory}},
	{"abstractions/token.go", "", [3]tests{own("abstractions"), overMemory, underTorture}},
	{"providers/memory/", "", [3]tests{own("providers/memory"), overMemory, underTorture}},
	{"providers/file/", "file", [3]tests{own("providers/file"), overFiles}},
	{"providers/sql/postgres/pgkit/", "postgres", [3]tests{{folder: "providers/sql/postgres/pgkit", then: &ownPostgres}}},
	{"providers/sql/postgres/", "postgres", [3]tests{ownPostgres, overPostgres}},
	{"providers/sql/mysql/", "mariadb", mariadbs},
	{"providers/sql/sqlserver/", "", [3]tests{own("providers/sql/sqlserver")}}, // no server can run here
	{"providers/sql/dialect/server.go", "mariadb", mariadbs},
	{"providers/sql/dialect/", "sqlite", [3]tests{{folder: "providers/sql/dialect", then: &ofDialects}, overSQLite}},
	{"providers/sql/", "sqlite", [3]tests{ofDialects, overSQLite}}, // the shared driver, and the verdicts on errors
	{"providers/redis/internal/redlock/", "redlock", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/prelude.lua", "redlock", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/internal/script/scripts/redlock/", "redlock", [3]tests{own("providers/redis/internal/redlock"), redlocks}},
	{"providers/redis/", "redis", [3]tests{own("providers/redis"), overRedis}},
	{"providers/blob/", "azurite", [3]tests{own("providers/blob"), {folder: "providers/blob", run: "^TestConformanceBlob$"}}},
	{"providers/cosmos/", "cosmos", [3]tests{own("providers/cosmos"), overCosmos}},
	{"providers/consul/", "consul", [3]tests{own("providers/consul"), {folder: "providers/consul", run: "^TestConformance$"}}},
	{"providers/kubernetes/", "kubernetes", [3]tests{own("providers/kubernetes"), {folder: "providers/kubernetes", run: "^TestConformance$"}}},
	{"providers/internal/httpjson/", "kubernetes", [3]tests{own("providers/kubernetes"), {folder: "providers/kubernetes", run: "^TestConformance$"}}},
	{"providers/etcd/", "etcd", [3]tests{own("providers/etcd"), {folder: "providers/etcd", run: "^TestConformance$"}}},
	{"providers/s3/", "s3", [3]tests{own("providers/s3"), {folder: "providers/s3", run: "^TestConformance$"}}},
	{"fencing/sqlfence/", "postgres", [3]tests{own("fencing/sqlfence"), {folder: "integration/fencing"}}},
	{"fencing/internal/cause/", "", [3]tests{own("fencing/redisfence")}},
	{"fencing/redisfence/", "redis", [3]tests{own("fencing/redisfence"), {folder: "integration/fencing"}}},
	{"sequence/memsequence/", "", [3]tests{own("sequence/memsequence"), sequences}},
	{"sequence/sqlsequence/", "sequences", [3]tests{own("sequence/sqlsequence"), {folder: "sequence/sqlsequence", run: "^TestConformance_(sqlite|postgres(_pool)?)$"}}},
	{"sequence/", "", [3]tests{own("sequence"), sequences}},
	{"cmd/leasing/internal/hold/", "command", [3]tests{inCommand("hold")}},
	{"cmd/leasing/internal/descendants/", "command", [3]tests{inCommand("descendants")}},
	{"cmd/leasing/internal/output/", "command", [3]tests{inCommand("output")}},
	{"cmd/leasing/internal/setup/", "command", [3]tests{inCommand("setup")}},
	{"cmd/leasing/", "command", [3]tests{ownCommand}},
	{"internal/engine/handover.go", "", [3]tests{inside("internal/engine"), overMemory}}, // torture hands no lease over
}

// area returns the first area that has the changed file. For other files, the core has all three
// layers, and any other package has its own tests.
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
		return area{layers: [3]tests{inside(folder), overMemory, underTorture}}
	default:
		return area{layers: [3]tests{own(folder)}}
	}
}
