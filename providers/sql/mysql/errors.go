package mysqllease

import (
	sqldriver "database/sql/driver"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/go-sql-driver/mysql"
)

// verdict judges an error from the driver.
func verdict(err error) sqlkit.Verdict {
	number := errorNumber(err)
	if errors.Is(err, sqldriver.ErrBadConn) || number == 0 && providerkit.NotSent(err) { // nothing was sent
		return sqlkit.Is(providerkit.Unsent)
	}
	return sqlkit.MySQL(number, fmt.Sprint(err))
}

// errorNumber returns the server's code from an error of the client library, or 0. If the library itself ended the
// log-in, errorNumber returns the code that MySQL's own client uses.
func errorNumber(err error) int {
	if coded := (*mysql.MySQLError)(nil); errors.As(err, &coded) {
		return int(coded.Number)
	}
	for _, ended := range []error{mysql.ErrNoTLS, mysql.ErrCleartextPassword, mysql.ErrNativePassword, mysql.ErrOldPassword, mysql.ErrUnknownPlugin} {
		if errors.Is(err, ended) {
			return sqlkit.MySQLAuthError
		}
	}
	return 0
}
