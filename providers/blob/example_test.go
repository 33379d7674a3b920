package bloblease_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/fencing/etagfence"
	bloblease "github.com/distributedleasing/leasing/providers/blob"
)

func Example() {
	ctx := context.Background()
	provider, err := bloblease.OpenURL(ctx, os.Getenv("LEASES_URL")) // azblob://account/leases?auth=ManagedIdentity
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

// Open accepts an identity instead of a secret. It sends no request.
func ExampleOpen() {
	provider, err := bloblease.Open(context.Background(), bloblease.Options{
		AccountURL: "https://account.blob.core.windows.net",
		Container:  "leases",
		Auth:       auth.Options{Mode: auth.ManagedIdentity},
		Prefix:     "billing/",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(provider.Capabilities().MaxTTL, provider.Close())
	// Output:
	// 1m0s <nil>
}

// Options can be read from JSON. Printed options never show a key.
func ExampleOptions() {
	var options bloblease.Options
	err := json.Unmarshal([]byte(`{
		"account_url": "https://account.blob.core.windows.net",
		"container": "leases",
		"retention": "72h",
		"auth": {"mode": "WorkloadIdentity"}
	}`), &options)
	fmt.Println(options, err)
	// Output:
	// bloblease.Options{AccountURL: (not shown), Auth: auth.Options{Mode: "WorkloadIdentity"}, Container: "leases", Retention: 72h0m0s} <nil>
}

// A blob can refuse the writes of a former holder: it stores the token of its latest
// writer, and each write is conditional on its ETag.
func ExampleProvider_fencedWrite() {
	ctx := context.Background()
	data, err := container.NewClientFromConnectionString(os.Getenv("AZURE_STORAGE_CONNECTION_STRING"), "data", nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := data.Create(ctx, nil); err != nil {
		log.Fatal(err)
	}
	ledger := data.NewBlockBlobClient("ledger")
	write := func(token int64, content string) error { // call it under a lease, with the lease's token
		var others map[string]*string
		return etagfence.Replace(ctx, token, etagfence.Replacement{
			Resource: "ledger",
			Read: func(ctx context.Context) (etagfence.Object, error) {
				properties, err := ledger.GetProperties(ctx, nil)
				if bloberror.HasCode(err, bloberror.BlobNotFound) {
					return etagfence.Object{}, nil
				}
				if err != nil {
					return etagfence.Object{}, err
				}
				others = properties.Metadata
				return etagfence.ReadObject(string(*properties.ETag), properties.Metadata)
			},
			Write: func(ctx context.Context, c etagfence.Condition) error {
				_, err := ledger.UploadBuffer(ctx, []byte(content), &blockblob.UploadBufferOptions{
					Metadata:         etagfence.Metadata(c, others),
					AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: conditions(c)},
				})
				if bloberror.HasCode(err, bloberror.ConditionNotMet, bloberror.BlobAlreadyExists) {
					return fmt.Errorf("%w: %w", etagfence.ErrPrecondition, err)
				}
				return err
			},
		})
	}
	fmt.Println(write(33, "by the first holder"))
	fmt.Println(write(34, "by the next"))
	fmt.Println(write(33, "by the first, who was paused"))
	// Prints:
	// <nil>
	// <nil>
	// stale fencing token: 33 refused, "ledger" has seen 34
}

// conditions converts a fencing condition to the client library's type.
func conditions(c etagfence.Condition) *blob.ModifiedAccessConditions {
	if c.IfNoneMatch != "" {
		return &blob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETag(c.IfNoneMatch))}
	}
	return &blob.ModifiedAccessConditions{IfMatch: to.Ptr(azcore.ETag(c.IfMatch))}
}

// TestExamplesRun runs the examples that need a service.
func TestExamplesRun(t *testing.T) {
	server := bloblease.StartAzurite(t)
	t.Setenv("AZURE_STORAGE_CONNECTION_STRING", server.ConnectionString())
	t.Setenv("LEASES_URL", "azblob:///leases?connection_string_env=AZURE_STORAGE_CONNECTION_STRING&create=true")
	require.Equal(t, "working under jobs/daily-maintenance\n<nil>\n", outputOf(t, Example))
	require.Equal(t, "<nil>\n<nil>\nstale fencing token: 33 refused, \"ledger\" has seen 34\n", outputOf(t, ExampleProvider_fencedWrite))
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
