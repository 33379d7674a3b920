package cosmoslease_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/fencing/etagfence"
	cosmoslease "github.com/distributedleasing/leasing/providers/cosmos"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
)

func Example() {
	ctx := context.Background()
	// cosmos://account.documents.azure.com/app/leases?auth=ManagedIdentity
	provider, err := cosmoslease.OpenURL(ctx, os.Getenv("COSMOS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)

	err = manager.Do(ctx, "jobs/daily-maintenance", func(ctx context.Context, lease *leasing.Lease) error {
		fmt.Println("working under", lease.Name())
		return nil
	})
	fmt.Println(err)
}

// Open accepts an identity of Microsoft Entra ID, which package auth creates.
func ExampleOpen() {
	provider, err := cosmoslease.Open(context.Background(), cosmoslease.Options{
		Endpoint: "https://account.documents.azure.com",
		Auth:     auth.Options{Mode: auth.ManagedIdentity},
		Database: "app", Container: "leases",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(provider) // no request was sent yet
	fmt.Println(provider.Close())
	// Output:
	// provider cosmos
	// <nil>
}

// Options can be read from JSON, and never print a secret.
func ExampleOptions() {
	var options cosmoslease.Options
	err := json.Unmarshal([]byte(`{
		"endpoint": "https://account.documents.azure.com",
		"database": "app", "container": "leases",
		"auth": {"mode": "ServicePrincipal", "service_principal": {"client_secret": "secret"}},
		"retention": "72h"
	}`), &options)
	fmt.Println(options, err)
	// Output:
	// cosmoslease.Options{Endpoint: (not shown), Auth: auth.Options{Mode: "ServicePrincipal", ServicePrincipal: auth.ServicePrincipalOptions{ClientSecret: (not shown)}}, Database: "app", Container: "leases", Retention: 72h0m0s} <nil>
}

// A sweep forgets names that were used once. In this example one process at a time sweeps.
func ExampleProvider_Sweep() {
	ctx := context.Background()
	provider, err := cosmoslease.OpenURL(ctx, os.Getenv("COSMOS_URL"))
	if err != nil {
		log.Fatal(err)
	}
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer manager.Close(ctx)
	err = manager.Do(ctx, "leasing/sweep", func(ctx context.Context, _ *leasing.Lease) error {
		forgotten, err := provider.Sweep(ctx)
		fmt.Println("forgotten:", forgotten)
		return err
	})
	fmt.Println(err)
}

// balance is a document that leases protect. It stores the token of its last writer.
type balance struct {
	ID      string `json:"id"`
	Cents   int    `json:"cents"`
	Token   int64  `json:"leasing_token"`
	WriteID string `json:"leasing_write"`
}

// A holder that resumes after a pause is refused by the document, because its token is
// no longer the highest. Without the token in the document, and the ETag in the
// request, the holder would overwrite its successor's write.
func ExampleOpen_fencedWrite() {
	ctx := context.Background()
	accounts := containerOf(os.Getenv("COSMOS_URL"), "accounts")
	add := func(cents int, token int64) error {
		key := azcosmos.NewPartitionKeyString("alice")
		var doc balance
		return etagfence.Replace(ctx, token, etagfence.Replacement{
			Resource: "alice",
			Read: func(ctx context.Context) (etagfence.Object, error) {
				response, err := accounts.ReadItem(ctx, key, "alice", nil)
				if status(err) == http.StatusNotFound {
					doc = balance{ID: "alice"}
					return etagfence.Object{}, nil
				}
				if err == nil {
					err = json.Unmarshal(response.Value, &doc)
				}
				return etagfence.Object{ETag: string(response.ETag), Token: doc.Token, WriteID: doc.WriteID}, err
			},
			Write: func(ctx context.Context, c etagfence.Condition) error {
				next := doc
				next.Cents, next.Token, next.WriteID = doc.Cents+cents, c.Token, c.WriteID
				body, err := json.Marshal(next)
				if err != nil {
					return err
				}
				if c.IfNoneMatch != "" {
					_, err = accounts.CreateItem(ctx, key, body, nil)
				} else {
					_, err = accounts.ReplaceItem(ctx, key, "alice", body, &azcosmos.ItemOptions{IfMatchEtag: (*azcore.ETag)(&c.IfMatch)})
				}
				if s := status(err); s == http.StatusConflict || s == http.StatusPreconditionFailed {
					return fmt.Errorf("%w: %w", etagfence.ErrPrecondition, err)
				}
				return err
			},
		})
	}
	fmt.Println(add(100, 33))
	fmt.Println(add(20, 34)) // the next holder
	fmt.Println(add(-100, 33))
}

// status returns the status of the service's answer, or 0.
func status(err error) int {
	var answer *azcore.ResponseError
	if errors.As(err, &answer) {
		return answer.StatusCode
	}
	return 0
}

// containerOf opens another container of the URL's account, with the URL's key.
func containerOf(rawURL, name string) *azcosmos.ContainerClient {
	u, err := url.Parse(rawURL)
	if err != nil {
		log.Fatal(err)
	}
	key, _ := u.User.Password()
	credential, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		log.Fatal(err)
	}
	client, err := azcosmos.NewClientWithKey("http://"+u.Host, credential, nil)
	if err != nil {
		log.Fatal(err)
	}
	container, err := client.NewContainer(strings.Split(u.Path, "/")[1], name)
	if err != nil {
		log.Fatal(err)
	}
	return container
}

// TestExamplesRun runs, against cosmostest, the examples that need an account.
func TestExamplesRun(t *testing.T) {
	account := cosmostest.New(cosmostest.Options{Key: "a2V5"})
	account.AddContainer("app", "leases", "/id")
	account.AddContainer("app", "accounts", "/id")
	server := httptest.NewServer(account)
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	t.Setenv("COSMOS_URL", "cosmos+http://:a2V5@"+server.Listener.Addr().String()+"/app/leases")
	require.Equal(t, "working under jobs/daily-maintenance\n<nil>\n", outputOf(t, Example))
	require.Equal(t, "forgotten: 0\n<nil>\n", outputOf(t, ExampleProvider_Sweep))
	require.Equal(t, "<nil>\n<nil>\nstale fencing token: 33 refused, \"alice\" has seen 34\n", outputOf(t, ExampleOpen_fencedWrite))
}

func outputOf(t *testing.T, example func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	example()
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}
