package operate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/console"
)

// unixPrefix is the prefix of a --listen value that is the path of a Unix socket.
const unixPrefix = "unix:"

// consoleFlags set the address of the console, and its permitted users.
type consoleFlags struct {
	listen, prefix, tokenFile, userHeader string
	proxies, hosts                        []string
	allowBreak                            bool
	length                                time.Duration
}

// Console is the command that serves a web page of leases.
func Console(a *cli.App) *cobra.Command {
	f := &consoleFlags{}
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve a web page of leases, live",
		Long: `Console serves a web page of the leases and their holders, read-only and for this machine alone. With --token-file
users sign in with the token in that file. With --user-header the users are those that a proxy at an address of --proxy names
in that header. --allow-break lets users end leases. The console ends with Ctrl-C. It has no TLS: put a proxy in front of any
address other than loopback.`,
		Example: "  leasing console --listen 127.0.0.1:0 --for 100ms",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.Using(ctx, func(ctx context.Context, b *cli.Backend) error { return serve(ctx, a, b, f) })
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "127.0.0.1:8378", "`address` to listen on, or unix:PATH for a Unix socket")
	flags.StringVar(&f.prefix, "prefix", "", "show only the names with this prefix")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the token for signing in, of at least 16 bytes")
	flags.StringVar(&f.userHeader, "user-header", "", "`header` in which a proxy names the user")
	flags.StringSliceVar(&f.proxies, "proxy", nil, "addresses of the proxies that set the user header, such as 10.0.0.0/8; not needed over a Unix socket")
	flags.StringSliceVar(&f.hosts, "host", nil, "host names of the console, besides localhost and addresses")
	flags.BoolVar(&f.allowBreak, "allow-break", false, "let users end leases")
	flags.DurationVar(&f.length, "for", 0, "end after this time (default never)")
	cmd.MarkFlagsMutuallyExclusive("token-file", "user-header")
	return cmd
}

func serve(ctx context.Context, a *cli.App, b *cli.Backend, f *consoleFlags) error {
	access, err := f.access()
	if err != nil {
		return err
	}
	if f.allowBreak && access == nil {
		return errors.New("--allow-break: want --token-file, or --user-header with --proxy, to identify the user who ends a lease")
	}
	network, address := "tcp", f.listen
	if path, is := strings.CutPrefix(f.listen, unixPrefix); is {
		network, address = "unix", path
	}
	listener, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err != nil {
		return err
	}
	if f.length > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.length)
		defer cancel()
	}
	if network == "unix" {
		fmt.Fprintln(a.Out, f.listen)
	} else {
		fmt.Fprintf(a.Out, "http://%s/\n", listener.Addr())
	}
	return console.Serve(ctx, listener, b.Manager, console.Options{
		Provider: b.Provider, Prefix: f.prefix, Hosts: f.hosts, Access: access, AllowBreak: f.allowBreak,
	})
}

// access returns the rule for access to the console, or nil for access from this machine only.
func (f *consoleFlags) access() (console.Access, error) {
	switch {
	case f.tokenFile != "":
		secret, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return nil, err
		}
		return console.Token(strings.TrimSpace(string(secret)))
	case f.userHeader == "" && len(f.proxies) > 0:
		return nil, errors.New("--proxy: want --user-header, with the header in which the proxies name the user")
	case f.userHeader != "":
		if len(f.proxies) == 0 && !strings.HasPrefix(f.listen, unixPrefix) {
			return nil, errors.New("--user-header: want --proxy with the addresses of the proxies, or --listen unix:PATH")
		}
		proxies := make([]netip.Prefix, len(f.proxies))
		for i, text := range f.proxies {
			var err error
			if proxies[i], err = parsePrefix(text); err != nil {
				return nil, err
			}
		}
		return console.ProxyUser(f.userHeader, proxies...)
	}
	return nil, nil //nolint:nilnil // a nil Access accepts only requests from this machine: see console.Options
}

// parsePrefix parses a prefix, or a single address as a prefix of that address alone.
func parsePrefix(text string) (netip.Prefix, error) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix, nil
	}
	address, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("--proxy: %q is neither an address, such as 10.1.2.3, nor a prefix, such as 10.0.0.0/8", text)
	}
	return netip.PrefixFrom(address, address.BitLen()), nil
}
