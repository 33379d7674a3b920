package setup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit/disk"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/open"
)

// Each backend has a guide, with a command for each kind of failure.
func TestEachBackendHasAGuide(t *testing.T) {
	t.Parallel()
	for _, o := range cli.Openers {
		for _, scheme := range o.Schemes {
			g := findGuide(scheme)
			require.NotNil(t, g, scheme)
			require.Contains(t, o.Schemes, open.Scheme(g.URL), "the URL of %s", scheme)
			for what, text := range map[string]string{"begin": g.Begin, "setUp": g.SetUp, "rights": g.Rights, "reach": g.Reach} {
				require.NotEmpty(t, text, "%s of %s", what, scheme)
			}
			provider, err := open.URL(t.Context(), filled.Replace(strings.TrimSuffix(g.URL, "?create=true")), cli.Openers...)
			require.NotErrorIs(t, err, leasing.ErrInvalid, g.URL) // no server is needed
			if err == nil {
				require.NoError(t, provider.Close())
			}
		}
	}
}

// filled fills in the words of a guide's URL.
var filled = strings.NewReplacer("FOLDER", "no/such/folder", "ACCOUNT", "account", "CONTAINER", "leases", "DATABASE", "app", "BUCKET", "bucket",
	"PREFIX", "leases", ":TOKEN", ":token", "s3://", "s3://access:secret@", "REGION", "eu-central-1", "NAMESPACE", "apps", "HOST", "127.0.0.1", "USER", "app", ":PASSWORD", ":secret")

func TestTheDoctorNamesTheNextCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		where, from string
		failure     error
		want        string
	}{
		{"", "", cli.ErrNoURL, "next sqlite to try: leasing doctor --local; then: leasing doctor --url 'sqlite:///FOLDER/leases.db?create=true'"},
		{"", "", cli.ErrNoURL, "next azblob to try: samples/azure/blob.sh up; then: leasing doctor --url 'azblob://ACCOUNT/CONTAINER?auth=Development'"},
		{"oracle://x", "--url", leasing.ErrInvalid, "next redis to try: "},
		{"", "", fmt.Errorf("config.json: no JSON"), ""},
		{"redis://h", "LEASING_URL", nil, "next run leasing run --wait 1m jobs/first -- COMMAND"},
		{"redis://h", "--url", nil, "next run export LEASING_URL='URL'; leasing run --wait 1m jobs/first -- COMMAND"},
		{"redis://h", "--url", leasing.ErrUnavailable, "next reach redis-cli -u URL PING"},
		{"azblob://a/c?auth=Auto", "--url", leasing.ErrDenied, "next rights az role assignment create "},
		{"cosmos://a/d/c", "--url", leasing.ErrNotSetUp, "next set up az cosmosdb sql container create "},
		{"s3://b?x=1", "--url", leasing.ErrInvalid, "next url leasing doctor --url 's3://BUCKET/PREFIX?region=REGION'"},
		{"sqlite:///nfs/x", "--url", fmt.Errorf("%w: %w", leasing.ErrNotSetUp, disk.ErrNetwork), "next url leasing doctor --local"},
		{"postgres://h", "--url", leasing.ErrStale, ""},
	} {
		d := &doctor{app: &cli.App{}}
		d.addNext(c.where, c.from, c.failure)
		var lines []string
		for _, f := range d.findings {
			lines = append(lines, strings.Join([]string{f.Verdict, f.Check, f.Text}, " "))
		}
		if c.want == "" {
			require.Empty(t, lines, "%v", c)
			continue
		}
		require.Contains(t, strings.Join(lines, "\n"), c.want, "%v", c)
	}
}
