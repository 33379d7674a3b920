package cosmostest_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "c2VjcmV0"

// client uses azcosmos over a pipe, so the tests check that the SDK understands the fake's
// answers.
type client struct {
	*azcosmos.ContainerClient
	t       *testing.T
	account *cosmostest.Account
	all     *azcosmos.Client
}

// inBubble runs a test against an account whose container has the given partition key path.
func inBubble(t *testing.T, o cosmostest.Options, path string, test func(t *testing.T, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if o.Key == "" {
			o.Key = key
		}
		account := cosmostest.New(o)
		account.AddContainer("db", "c", path)
		pipe := cosmostest.NewPipe(account)
		transport := pipe.Transport()
		defer pipe.Close()
		defer transport.CloseIdleConnections()
		test(t, newClient(t, account, transport, key))
	})
}

func newClient(t *testing.T, account *cosmostest.Account, transport *http.Transport, key string) *client {
	t.Helper()
	credential, err := azcosmos.NewKeyCredential(key)
	require.NoError(t, err)
	whole, err := azcosmos.NewClientWithKey(cosmostest.PipeURL, credential, options(transport))
	require.NoError(t, err)
	container, err := whole.NewContainer("db", "c")
	require.NoError(t, err)
	return &client{ContainerClient: container, t: t, account: account, all: whole}
}

func options(transport *http.Transport) *azcosmos.ClientOptions {
	var o azcosmos.ClientOptions
	o.Transport, o.Retry = &http.Client{Transport: transport}, policy.RetryOptions{MaxRetries: -1}
	return &o
}

func (c *client) create(id, fields string) azcosmos.ItemResponse {
	c.t.Helper()
	r, err := c.tryCreate(id, fields)
	require.NoError(c.t, err)
	return r
}

func (c *client) tryCreate(id, fields string) (azcosmos.ItemResponse, error) {
	return c.CreateItem(c.t.Context(), azcosmos.NewPartitionKeyString(id), []byte(`{"id": "`+id+`"`+fields+`}`), nil)
}

func (c *client) replace(id, fields string, etag azcore.ETag) (azcosmos.ItemResponse, error) {
	return c.ReplaceItem(c.t.Context(), azcosmos.NewPartitionKeyString(id), id, []byte(`{"id": "`+id+`"`+fields+`}`), &azcosmos.ItemOptions{IfMatchEtag: &etag})
}

func (c *client) read(id string, o *azcosmos.ItemOptions) (azcosmos.ItemResponse, error) {
	return c.ReadItem(c.t.Context(), azcosmos.NewPartitionKeyString(id), id, o)
}

// field returns a field of an item.
func field(t *testing.T, r azcosmos.ItemResponse, name string) any {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal(r.Value, &fields), string(r.Value))
	return fields[name]
}

// requireStatus checks that an error is an answer with a status and substatus.
func requireStatus(t *testing.T, err error, status int, substatus string) {
	t.Helper()
	var answer *azcore.ResponseError
	require.ErrorAs(t, err, &answer)
	require.Equal(t, status, answer.StatusCode, err)
	require.Equal(t, substatus, answer.RawResponse.Header.Get("x-ms-substatus"), err)
	require.NotEmpty(t, answer.RawResponse.Header.Get("Date"))
}

func TestItemsAreCreatedOnceAndReplacedUnderTheirETag(t *testing.T) {
	inBubble(t, cosmostest.Options{}, "/id", func(t *testing.T, c *client) {
		first := c.create("a b'c", `, "n": 1`)
		require.True(t, strings.HasPrefix(string(first.ETag), `"`) && strings.HasSuffix(string(first.ETag), `"`), "quoted: %s", first.ETag)
		require.Empty(t, first.Value, "azcosmos asks for no content")
		_, err := c.tryCreate("a b'c", "")
		requireStatus(t, err, 409, "")
		time.Sleep(2500 * time.Millisecond)
		second, err := c.replace("a b'c", `, "n": 2`, first.ETag)
		require.NoError(t, err)
		require.NotEqual(t, first.ETag, second.ETag)
		_, err = c.replace("a b'c", `, "n": 3`, first.ETag)
		requireStatus(t, err, 412, "")
		_, err = c.replace("a b'c", `, "n": 4`, "*")
		require.NoError(t, err)
		read, err := c.read("a b'c", nil)
		require.NoError(t, err)
		require.EqualValues(t, 4, field(t, read, "n"))
		require.Equal(t, string(read.ETag), field(t, read, "_etag"))
		require.EqualValues(t, time.Now().Unix(), field(t, read, "_ts"))
		date, err := http.ParseTime(read.RawResponse.Header.Get("Date"))
		require.NoError(t, err)
		require.Equal(t, time.Now().Truncate(time.Second).UTC(), date.UTC(), "to the second")
	})
}

func TestWhatIsNotThere(t *testing.T) {
	inBubble(t, cosmostest.Options{}, "/id", func(t *testing.T, c *client) {
		_, err := c.read("x", nil)
		requireStatus(t, err, 404, "")
		_, err = c.replace("x", "", "*")
		requireStatus(t, err, 404, "")
		etag := c.create("x", "").ETag
		remove := func(etag azcore.ETag) error {
			_, err := c.DeleteItem(t.Context(), azcosmos.NewPartitionKeyString("x"), "x", &azcosmos.ItemOptions{IfMatchEtag: &etag})
			return err
		}
		requireStatus(t, remove(`"other"`), 412, "")
		require.NoError(t, remove(etag))
		requireStatus(t, remove("*"), 404, "")
		c.create("x", "")
		c.account.DropContainer("db", "c")
		_, err = c.read("x", nil)
		requireStatus(t, err, 404, "1003")
		_, err = c.tryCreate("x", "")
		requireStatus(t, err, 404, "1003")
		_, err = c.Read(t.Context(), nil)
		requireStatus(t, err, 404, "")
	})
}

func TestItemsAreHeldAgainstTheRules(t *testing.T) {
	inBubble(t, cosmostest.Options{}, "/pk/of", func(t *testing.T, c *client) {
		create := func(pk, body string) error {
			_, err := c.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(pk), []byte(body), nil)
			return err
		}
		require.NoError(t, create("p", `{"id": "a", "pk": {"of": "p"}}`))
		require.NoError(t, create("q", `{"id": "a", "pk": {"of": "q"}}`), "another partition")
		requireStatus(t, create("q", `{"id": "b", "pk": {"of": "p"}}`), 400, "1001")
		requireStatus(t, create("p", `{"id": "b"}`), 400, "1001")
		requireStatus(t, create("p", `{"pk": {"of": "p"}}`), 400, "")
		requireStatus(t, create("p", `{"id": "a/b", "pk": {"of": "p"}}`), 400, "")
		requireStatus(t, create("p", `{"id": "b", "ttl": 0, "pk": {"of": "p"}}`), 400, "")
		requireStatus(t, create("p", `no JSON`), 400, "")
		requireStatus(t, create("p", `{"id": "b", "pk": {"of": "p"}, "long": "`+strings.Repeat("x", 2<<20)+`"}`), 413, "")
	})
}

func TestTimeToLive(t *testing.T) {
	for _, blocks := range []bool{false, true} {
		inBubble(t, cosmostest.Options{ExpiredBlocks: blocks}, "/id", func(t *testing.T, c *client) {
			c.create("off", `, "ttl": 5`)
			time.Sleep(time.Minute)
			_, err := c.read("off", nil)
			require.NoError(t, err, "the container's is off")
			c.account.SetTTL("db", "c", 10)
			c.create("default", "")
			c.create("never", `, "ttl": -1`)
			c.create("own", `, "ttl": 20`)
			for _, step := range []struct {
				sleep time.Duration
				there []string
				gone  []string
			}{
				{9 * time.Second, []string{"default", "never", "own"}, []string{"off"}},
				{time.Second, []string{"never", "own"}, []string{"default"}},
				{10 * time.Second, []string{"never"}, []string{"own"}},
			} {
				time.Sleep(step.sleep)
				for _, id := range step.there {
					_, err := c.read(id, nil)
					require.NoError(t, err, id)
				}
				for _, id := range step.gone {
					_, err := c.read(id, nil)
					requireStatus(t, err, 404, "")
					_, err = c.replace(id, "", "*")
					requireStatus(t, err, 404, "")
				}
			}
			_, err = c.tryCreate("own", "")
			if blocks {
				requireStatus(t, err, 409, "")
			} else {
				require.NoError(t, err)
			}
		})
	}
}

func TestALaggingReplicaIsStaleUnlessTheSessionSaysWhatItMustHaveSeen(t *testing.T) {
	inBubble(t, cosmostest.Options{}, "/id", func(t *testing.T, c *client) {
		first := c.create("x", `, "n": 1`)
		second, err := c.replace("x", `, "n": 2`, first.ETag)
		require.NoError(t, err)
		c.account.Before(func(cosmostest.Operation) cosmostest.Fault { return cosmostest.Fault{Stale: true} })
		for token, want := range map[*string]float64{nil: 1, first.SessionToken: 1, second.SessionToken: 2} {
			r, err := c.read("x", &azcosmos.ItemOptions{SessionToken: token})
			require.NoError(t, err)
			require.EqualValues(t, want, field(t, r, "n"))
		}
		_, err = c.replace("x", `, "n": 3`, second.ETag)
		require.NoError(t, err)
		for lag, want := range map[int]float64{0: 2, 1: 2, 2: 1} {
			c.account.Before(func(cosmostest.Operation) cosmostest.Fault { return cosmostest.Fault{Stale: true, Lag: lag} })
			r, err := c.read("x", nil)
			require.NoError(t, err)
			require.EqualValues(t, want, field(t, r, "n"), "lag %d", lag)
			r, err = c.read("x", &azcosmos.ItemOptions{SessionToken: second.SessionToken})
			require.NoError(t, err)
			require.EqualValues(t, 2, field(t, r, "n"), "the session has seen it, lag %d", lag)
		}
		c.account.Before(func(cosmostest.Operation) cosmostest.Fault { return cosmostest.Fault{Stale: true, Lag: 3} })
		_, err = c.read("x", nil)
		requireStatus(t, err, 404, "")
		c.account.Before(nil)
		future := "0:-1#99999"
		_, err = c.read("x", &azcosmos.ItemOptions{SessionToken: &future})
		requireStatus(t, err, 404, "1002")
		c.account.AddContainer("db", "c", "/id") // created again
		_, err = c.read("x", &azcosmos.ItemOptions{SessionToken: second.SessionToken})
		requireStatus(t, err, 404, "1002")
	})
}

func TestQueriesComeInPages(t *testing.T) {
	inBubble(t, cosmostest.Options{}, "/id", func(t *testing.T, c *client) {
		for _, id := range []string{"a1", "a2", "a3", "b1", "A1"} {
			c.create(id, `, "n": `+id[1:])
		}
		ask := func(text string, size int32, parameters ...azcosmos.QueryParameter) (ids []string) {
			pager := c.NewQueryItemsPager(text, azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{PageSizeHint: size, QueryParameters: parameters})
			for pager.More() {
				page, err := pager.NextPage(t.Context())
				require.NoError(t, err)
				require.LessOrEqual(t, len(page.Items), int(size))
				for _, item := range page.Items {
					ids = append(ids, field(t, azcosmos.ItemResponse{Value: item}, "id").(string))
				}
			}
			return ids
		}
		prefix := azcosmos.QueryParameter{Name: "@p", Value: "a"}
		for _, size := range []int32{1, 2, 3, 100} {
			require.Equal(t, []string{"a1", "a2", "a3"}, ask("SELECT * FROM c WHERE STARTSWITH(c.id, @p)", size, prefix))
		}
		require.Equal(t, []string{"a1"}, ask("SELECT * FROM c WHERE STARTSWITH(c.id, @p) AND c.n < @n", 9, prefix, azcosmos.QueryParameter{Name: "@n", Value: 2}))
		pager := c.NewQueryItemsPager("SELECT * FROM c ORDER BY c.n", azcosmos.NewPartitionKey(), nil)
		_, err := pager.NextPage(t.Context())
		requireStatus(t, err, 400, "")
	})
}
