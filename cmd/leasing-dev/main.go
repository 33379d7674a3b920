// Command leasing-dev tries leases on a backend: it tests their promises under faults, and measures their speed.
//
//	leasing-dev torture --url redis://127.0.0.1:6379
//	leasing-dev bench --url redis://127.0.0.1:6379
//	leasing-dev help
//
// The command is for developers and operators who choose or write a provider. Command leasing runs commands under
// leases.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/open"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
	consullease "github.com/distributedleasing/leasing/providers/consul"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	etcdlease "github.com/distributedleasing/leasing/providers/etcd"
	filelease "github.com/distributedleasing/leasing/providers/file"
	kuberneteslease "github.com/distributedleasing/leasing/providers/kubernetes"
	redislease "github.com/distributedleasing/leasing/providers/redis"
	s3lease "github.com/distributedleasing/leasing/providers/s3"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

// Exit codes, the same as those of command leasing.
const (
	exitNo     = 1   // a promise was broken
	exitFailed = 125 // leasing-dev itself failed
)

// errPromiseBroken ends the program with exitNo, after a report that shows the reason.
var errPromiseBroken = errors.New("a promise was broken")

func main() {
	logging.Disable() // otherwise each failed attempt to connect prints a line
	torture.WorkerMain(openForWorker)
	os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
}

// app has the global flags and the streams.
type app struct {
	out, err    io.Writer
	url, output string
	timeout     time.Duration
}

// execute runs a command line and returns the exit code.
func execute(args []string, out, problems io.Writer) int {
	a := &app{out: out, err: problems}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(out)
	root.SetErr(problems)
	cmd, err := root.ExecuteContextC(context.Background())
	if err != nil && err != errPromiseBroken { //nolint:errorlint // errPromiseBroken has been reported already
		fmt.Fprintln(problems, "leasing-dev:", providerkit.Visible(strings.Join(strings.Fields(withFlagNames(cmd, err)), " ")))
	}
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errPromiseBroken):
		return exitNo
	}
	return exitFailed
}

func (a *app) root() *cobra.Command {
	openers := openers()
	root := &cobra.Command{
		Use:   "leasing-dev",
		Short: "Tests and measures leases on a backend",
		Long: `Leasing-dev tests and measures leases on a backend, under names of its own. The backend is the URL of --url, else of
$LEASING_URL. A URL begins with
` + open.Schemes(openers...) + `.

Exit codes: 0 done; 1 a promise was broken; 125 leasing-dev failed.`,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf(`%w; see "%s --help"`, err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.url, "url", "", "`URL` of the backend (default $LEASING_URL)")
	flags.StringVarP(&a.output, "output", "o", "table", "output format, table or json")
	flags.DurationVar(&a.timeout, "timeout", 10*time.Second, "time limit of one request to the backend")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		if a.output != "table" && a.output != "json" {
			return fmt.Errorf("--output %q: want table or json", a.output)
		}
		if a.timeout <= 0 {
			return fmt.Errorf("--timeout %v: want more than 0", a.timeout)
		}
		return nil
	}
	root.AddCommand(a.tortureCommand(), a.benchCommand())
	for _, c := range root.Commands() {
		c.DisableFlagsInUseLine = true
	}
	return root
}

// backendURL returns the URL of the backend.
func (a *app) backendURL() (string, error) {
	where := cmp.Or(a.url, os.Getenv("LEASING_URL"))
	if where == "" {
		return "", errors.New("no backend: name one with --url or LEASING_URL")
	}
	return where, nil
}

// provider opens the backend at a URL.
func provider(ctx context.Context, url string) (leasing.Provider, error) {
	return open.URL(ctx, url, openers()...)
}

// openForWorker opens the backend in a worker process of a torture run.
func openForWorker(ctx context.Context) (leasing.Provider, error) {
	return provider(ctx, os.Getenv(workerVariable))
}

// openers returns the openers of all backends that processes can share.
func openers() []abstractions.Opener {
	return []abstractions.Opener{
		postgreslease.Opener(), sqlitelease.Opener(), mysqllease.Opener(), redislease.Opener(), bloblease.Opener(), cosmoslease.Opener(), s3lease.Opener(),
		etcdlease.Opener(), consullease.Opener(), kuberneteslease.Opener(), filelease.Opener(),
	}
}

// withFlagNames returns the text of a command's error, with flags in place of the options that they set.
func withFlagNames(cmd *cobra.Command, err error) string {
	text := strings.ReplaceAll(strings.TrimPrefix(err.Error(), "leasing: "), ": leasing: ", ": ")
	invalid := (*leasing.InvalidError)(nil)
	if !errors.As(err, &invalid) {
		return text
	}
	option, _ := strings.CutPrefix(invalid.Field, "Options.")
	flag := strings.ToLower(option)
	if option == invalid.Field || cmd.Flags().Lookup(flag) == nil {
		return text
	}
	own := *invalid
	own.Field = "--" + flag
	return strings.Replace(text, invalid.Error(), own.Error(), 1)
}
