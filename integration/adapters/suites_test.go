package adapters_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/integration/adapters/hosttest"
)

// suite is the part of a host project's own tests that its adapter can pass. The tests are edited as little as
// possible: they call the adapter's constructor, through files of testdata, in place of their own.
type suite struct {
	module  string
	taken   string // the only folder of the module to copy; "" for all
	tests   string // their package
	edits   []edit
	flags   []string
	cluster bool // the tests start a Kubernetes API server
}

// edit replaces a pattern in the files that match a glob.
type edit struct{ files, pattern, into string }

var suites = map[string]suite{
	"gocron": {
		module: "github.com/go-co-op/gocron/v2", tests: ".",
		edits: []edit{
			{"scheduler_test.go", `&testElector\{notLeader: notLeader\}`, "leaseElector(notLeader)"},
			{"scheduler_test.go", `&testLocker\{notLocked: notLocked\}`, "leaseLocker(notLocked)"},
			{"scheduler_test.go", `(?m)^\t\t\terrorLocker\{\},`, "\t\t\theldLocker(),"},
			// A busy machine gets more time.
			{"scheduler_test.go", `time\.After\(.*time\.Second\)`, "time.After(time.Minute)"},
			{"scheduler_test.go", `time\.Sleep\(100 \* time\.Millisecond\)`, "time.Sleep(800 * time.Millisecond)"},
		},
		flags: []string{"-run=WithDistributed|WithLocker"},
	},
	"certmagic": {
		module: "github.com/caddyserver/certmagic", tests: ".",
		edits: []edit{
			{"*_test.go", `(\bStorage:\s+|\bstorage := |\.Storage = )(&FileStorage\{Path: [^}]+\})`, "${1}Leased($2)"},
			{"*_test.go", `(\w+\.Storage)\.\(\*FileStorage\)`, "filesOf($1)"},
			{"filestorage_test.go", `&certmagic\.FileStorage\{\s+(Path: tmpDir),\s+\}`, "certmagic.Leased(&certmagic.FileStorage{$1})"},
		},
		// The first test acquires a lock under a context that has ended, the second needs a storage that can't
		// renew, and the others query name servers on the Internet.
		flags: []string{"-skip=TestFileStorageWriteLock|TestRenewLockLeaseWithoutInterface|TestLookupNameserversOK|TestFindZoneByFqdn"},
	},
	"leaderelection": {
		module: "k8s.io/client-go", taken: "tools/leaderelection", tests: ".",
		edits: []edit{
			{"leaderelection_test.go", `&rl\.LeaseLock\{\s+LeaseMeta:[^}]+\}`, "leased(t, $0)"},
			{"leaderelection_test.go", `lec\.Lock = lock\b`, "lec.Lock = leased(t, lock)"},
		},
		// In this test the lease of one candidate expires by the clock of another.
		flags: []string{"-skip=TestTryAcquireOrRenewLeases/acquire_from_led,_unacked_object"},
	},
	"controllerruntime": {
		module: "sigs.k8s.io/controller-runtime", tests: "./pkg/manager", cluster: true,
		edits: []edit{
			{"pkg/leaderelection/leader_election.go", `resourcelock\.NewWithLabels\(`, "newLease("},
			{"pkg/leaderelection/fake/leader_election.go", `(?s)return (&resourceLock\{.*?\n\t\}), nil`, "return leased($1), nil"},
		},
		// Three tests need a lock of client-go's own type.
		flags: []string{"-ginkgo.focus=eader ?[eE]lection|lease|leading", "-ginkgo.skip=LeasesResourceLock|specified ResourceLock|leaselocks"},
	},
}

func TestOwnSuites_Memory(t *testing.T) {
	servertest.Thorough(t)
	t.Parallel()
	runSuites(t, "memory://")
}

func TestOwnSuites_Redis(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	runSuites(t, redisURL(t))
}

var specs = regexp.MustCompile(`Ran \d+ of \d+ Specs`)

func runSuites(t *testing.T, url string) {
	for host, s := range suites {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			env := append(os.Environ(), hosttest.URL+"="+url, "TEST_ENV=ci")
			if s.cluster {
				servertest.Require(t, "LEASING_TEST_KUBERNETES")
				env = append(env, "KUBEBUILDER_CONTROLPLANE_START_TIMEOUT=2m",
					"TEST_ASSET_KUBE_APISERVER="+servertest.Tool(t, "KUBE_APISERVER", "../tools/kubernetes", "kube-apiserver"),
					"TEST_ASSET_ETCD="+servertest.Tool(t, "ETCD", "../tools/etcd", "server"))
			}
			folder := s.copyTo(t, host)
			test := exec.CommandContext(t.Context(), "go", append([]string{"test", "-count=1", "-v", "-vet=off", "-timeout=5m", s.tests}, s.flags...)...)
			test.Dir, test.Env = folder, append(env, "GOWORK="+filepath.Join(folder, "go.work"))
			out, err := test.CombinedOutput()
			require.NoError(t, err, "%s", out)
			require.Contains(t, string(out), hosttest.Acquired, "no lease was acquired")
			t.Logf("%d tests passed, %d leases %s", bytes.Count(out, []byte("--- PASS")), bytes.Count(out, []byte(hosttest.Acquired)), specs.Find(out))
		})
	}
}

// copyTo copies the host's source, in the version that go.mod requires, edits its tests, and puts it into a
// workspace with the modules of this repository.
func (s suite) copyTo(t *testing.T, host string) string {
	source := strings.TrimSpace(string(goOutput(t, "list", "-m", "-f", "{{.Dir}}", s.module)))
	if source == "" {
		t.Skip("the source of " + s.module + " is missing: go mod download " + s.module)
	}
	folder := t.TempDir()
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join(source, s.taken))))
	require.NoError(t, os.CopyFS(folder, os.DirFS(filepath.Join("testdata", host))))
	if s.taken != "" {
		rewrite(t, filepath.Join(source, "go.mod"), filepath.Join(folder, "go.mod"), edit{"", `(?m)^module .*$`, "module own.test"})
		rewrite(t, filepath.Join(source, "go.sum"), filepath.Join(folder, "go.sum"))
	}
	work := strings.TrimSpace(string(goOutput(t, "env", "GOWORK")))
	root := filepath.Dir(work)
	rewrite(t, work, filepath.Join(folder, "go.work"), edit{"", `(?m)^\t\.$`, "\t" + root + "\n\t" + folder}, edit{"", `\./`, root + "/"})
	rewrite(t, work+".sum", filepath.Join(folder, "go.work.sum"))
	for _, e := range s.edits {
		files, err := filepath.Glob(filepath.Join(folder, e.files))
		require.NoError(t, err)
		found := false
		for _, file := range files {
			found = rewrite(t, file, file, e) || found
		}
		require.True(t, found, "no file has %s", e.pattern)
	}
	return folder
}

// rewrite edits the text of one file, writes the result to another file, and reports whether the text changed.
func rewrite(t *testing.T, from, to string, edits ...edit) bool {
	before, err := os.ReadFile(from)
	require.NoError(t, err)
	text := before
	for _, e := range edits {
		text = regexp.MustCompile(e.pattern).ReplaceAll(text, []byte(e.into))
	}
	require.NoError(t, os.WriteFile(to, text, 0o644))
	return !bytes.Equal(before, text)
}

func goOutput(t *testing.T, args ...string) []byte {
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err)
	return out
}
