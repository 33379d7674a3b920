package postgreslease

import (
	"database/sql"
	"encoding/hex"

	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// pgColumns are where to scan what PostgreSQL's statements read: the fragment "row" behind the clock, and no name.
func pgColumns(r *dialect.Row) []any {
	columns := r.Columns()
	columns[0], columns[12] = &r.Began, (*inHex)(&r.Memory)
	return columns[:13]
}

// inHex are bytes that are read as a text.
type inHex []byte

// Scan reads a column.
func (b *inHex) Scan(column any) (err error) {
	var text sql.NullString // drivers return bytes too
	if err = text.Scan(column); err == nil {
		*b, err = hex.DecodeString(text.String)
	}
	return err
}
