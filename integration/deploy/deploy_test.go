// Package deploy checks the files for Kubernetes and systemd, as far as that is possible without
// a cluster or a running systemd.
package deploy

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const folder = "../../deploy/"

// decode reads a manifest. A field that the API does not have is an error.
func decode(t *testing.T, file string, into any) {
	text, err := os.ReadFile(folder + "kubernetes/" + file)
	require.NoError(t, err)
	require.NoError(t, yaml.UnmarshalStrict(text, into))
}

// commands returns the leasing command of each file.
func commands(t *testing.T) map[string][]string {
	var elect appsv1.Deployment
	decode(t, "elect.yaml", &elect)
	require.Equal(t, elect.Spec.Selector.MatchLabels, elect.Spec.Template.Labels)
	var once batchv1.CronJob
	decode(t, "cronjob.yaml", &once)
	all := map[string][]string{
		"elect.yaml":   wrappedCommand(t, elect.Spec.Template.Spec),
		"cronjob.yaml": wrappedCommand(t, once.Spec.JobTemplate.Spec.Template.Spec),
	}
	for _, name := range []string{"report.service", "worker.service"} {
		unit, err := os.ReadFile(folder + "systemd/" + name)
		require.NoError(t, err)
		for line := range strings.Lines(string(unit)) {
			if command, is := strings.CutPrefix(line, "ExecStart="); is {
				all[name] = strings.Fields(command)
			}
		}
	}
	return all
}

// wrappedCommand returns the command of a pod's only container, whose binary an init container has
// copied.
func wrappedCommand(t *testing.T, pod corev1.PodSpec) []string {
	require.Len(t, pod.InitContainers, 1)
	require.Len(t, pod.Containers, 1)
	copies, uses := pod.InitContainers[0], pod.Containers[0]
	require.Equal(t, uses.Command[0], copies.Command[len(copies.Command)-1])
	for _, c := range []corev1.Container{copies, uses} {
		require.Equal(t, pod.Volumes[0].Name, c.VolumeMounts[0].Name)
		require.Equal(t, filepath.Dir(uses.Command[0]), c.VolumeMounts[0].MountPath)
	}
	return uses.Command
}

// built builds command leasing and returns its path.
func built(t *testing.T) string {
	leasing := filepath.Join(t.TempDir(), "leasing")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", leasing, "github.com/distributedleasing/leasing/cmd/leasing")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return leasing
}

// If systemd is installed, it accepts the units: it would report an unknown key or a bad value as
// an error.
func TestSystemdTakesTheUnits(t *testing.T) {
	verify, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd is not installed")
	}
	units, leasing := t.TempDir(), built(t)
	for _, name := range []string{"report.service", "report.timer", "worker.service"} {
		text, err := os.ReadFile(folder + "systemd/" + name)
		require.NoError(t, err)
		// systemd-analyze checks that the command exists.
		unit := strings.ReplaceAll(string(text), "ExecStart=/usr/local/bin/leasing", "ExecStart="+leasing)
		require.NoError(t, os.WriteFile(filepath.Join(units, name), []byte(unit), 0o644))
	}
	out, err := exec.CommandContext(t.Context(), verify, "verify", "--man=no", "--recursive-errors=no",
		filepath.Join(units, "report.timer"), filepath.Join(units, "report.service"), filepath.Join(units, "worker.service")).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for line := range strings.Lines(string(out)) { // the output also covers units of packages on this machine
		require.NotContains(t, line, "report.")
		require.NotContains(t, line, "worker.")
	}
}

// Each command works as written, except that it runs another program, and that a leader has only
// one term.
func TestTheCommandsWork(t *testing.T) {
	leasing, all := built(t), commands(t)
	require.Len(t, all, 4)
	for file, command := range all {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, "leasing", filepath.Base(command[0]))
			end := slices.Index(command, "--")
			require.Positive(t, end)
			args := append(slices.Clone(command[1:end]), "--", "true")
			if args[0] == "elect" {
				args = slices.Insert(args, 1, "--terms", "1")
			}
			if at := slices.Index(args, "--at-least"); at > 0 {
				args[at+1] = "1ms"
			}
			run := exec.CommandContext(t.Context(), leasing, args...)
			run.Env = append(os.Environ(), "LEASING_URL=sqlite://"+filepath.Join(t.TempDir(), "leases.db")+"?create=true")
			out, err := run.CombinedOutput()
			require.NoError(t, err, "%s", out)
		})
	}
}
