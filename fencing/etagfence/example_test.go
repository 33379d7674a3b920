package etagfence_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing/etagfence"
)

// bucket is a store that holds one object with an ETag, as in Azure Blob Storage.
type bucket struct {
	version  int
	content  string
	metadata map[string]string
}

func (b *bucket) etag() string {
	if b.version == 0 {
		return ""
	}
	return fmt.Sprintf(`"%d"`, b.version)
}

func (b *bucket) put(content string, metadata map[string]string, ifMatch, ifNoneMatch string) error {
	if ifMatch != b.etag() || (ifNoneMatch == "*") != (b.version == 0) {
		return errors.New("412 Precondition Failed")
	}
	b.version, b.content, b.metadata = b.version+1, content, metadata
	return nil
}

// A holder is paused after it has read and before it writes.
func ExampleReplace() {
	ctx := context.Background()
	ledger := &bucket{}
	add := func(line string, token int64, pause func()) {
		var content string
		err := etagfence.Replace(ctx, token, etagfence.Replacement{
			Resource: "ledger",
			Read: func(context.Context) (etagfence.Object, error) {
				content = ledger.content
				return etagfence.ReadObject(ledger.etag(), ledger.metadata)
			},
			Write: func(_ context.Context, c etagfence.Condition) error {
				pause()
				metadata := etagfence.Metadata(c, ledger.metadata)
				if err := ledger.put(content+line, metadata, c.IfMatch, c.IfNoneMatch); err != nil {
					return fmt.Errorf("%w: %w", etagfence.ErrPrecondition, err)
				}
				return nil
			},
		})
		if errors.Is(err, leasing.ErrStale) {
			fmt.Println(err)
		}
	}
	awake := func() {}
	add("a", 33, awake)
	add("b", 33, func() { // paused for longer than its lease, while
		add("c", 34, awake) // its successor works
	})
	fmt.Println("the ledger says", ledger.content)
	// Output:
	// stale fencing token: 33 refused, "ledger" has seen 34
	// the ledger says ac
}

// NewCondition returns the condition to send and the values to store, without the loop of Replace.
func ExampleNewCondition() {
	read, err := etagfence.ReadObject(`"0x8DB"`, map[string]string{"Leasingtoken": "33"})
	if err != nil {
		panic(err)
	}
	condition, err := etagfence.NewCondition("ledger", read, 34)
	if err != nil {
		panic(err)
	}
	fmt.Println(condition.Header())
	fmt.Println(etagfence.Metadata[string](condition, nil)[etagfence.MetadataToken])

	_, err = etagfence.NewCondition("ledger", read, 32)
	fmt.Println(err)
	// Output:
	// map[If-Match:["0x8DB"]]
	// 34
	// stale fencing token: 32 refused, "ledger" has seen 33
}
