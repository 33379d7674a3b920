package runner

import (
	"context"
	"os"
	"os/exec"
	"runtime/debug"
)

// Build builds samples into a folder. It uses the race detector if this program was built with the race detector.
func Build(ctx context.Context, folder string, samples ...string) error {
	args := []string{"build", "-o", folder + string(os.PathSeparator)}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-race" {
				args = append(args, "-race="+s.Value)
			}
		}
	}
	for _, sample := range samples {
		args = append(args, "github.com/distributedleasing/leasing/samples/"+sample)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return cmd.Run()
}
