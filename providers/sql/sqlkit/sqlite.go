package sqlkit

import (
	"errors"
	"io/fs"
	"reflect"
	"strings"
	"syscall"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// sqliteCodes has the verdicts on SQLite's primary result codes. A code that is not listed leaves the outcome
// unknown. See https://sqlite.org/rescode.html. After any error other than an I/O error the transaction is
// still open, even after BUSY at COMMIT, and is then rolled back.
//
// A full disk (13, or 10 with some drivers) leaves the outcome unknown: the log may have the commit already
// when the write of a sector's padding fails, and a restart would find the commit.
var sqliteCodes = map[int]Verdict{
	1:  Is(providerkit.NotSetUp), // ERROR: no such table or column, its only cause in our statements
	3:  Is(providerkit.Denied),   // PERM
	5:  Is(providerkit.Refused),  // BUSY: another process holds the write lock
	6:  Is(providerkit.Refused),  // LOCKED
	8:  Is(providerkit.Denied),   // READONLY
	11: Closing(providerkit.Unknown, ""),
	13: {Meaning: providerkit.Meaning{Advice: adviceFullDisk}},
	15: Is(providerkit.Refused),           // PROTOCOL: lost a race for the lock
	17: Is(providerkit.Refused),           // SCHEMA: changed by another process
	19: Is(providerkit.NotSetUp),          // CONSTRAINT: another application's table
	20: Is(providerkit.NotSetUp),          // MISMATCH: likewise
	23: Is(providerkit.Denied),            // AUTH
	26: Closing(providerkit.NotSetUp, ""), // NOTADB
}

const (
	sqliteIO       = 10
	sqliteCantOpen = 14

	adviceFullDisk = "the disk is full, or a quota is used up"
)

// SQLite judges an error from an SQLite driver. The driver's package has "sqlite" in its path, as those of ncruces,
// modernc and mattn do, or the error has a method Code that returns an int.
func SQLite(err error) Verdict {
	code := sqliteCode(err) & 0xff
	switch {
	// Nothing was written. The cause is known where the driver wraps the system's error.
	case code == sqliteCantOpen && (errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)): // too many open files
		return Is(providerkit.Refused)
	case code == sqliteCantOpen && (errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)):
		return Is(providerkit.Denied)
	case code == sqliteCantOpen && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR)): // no such folder
		return Is(providerkit.NotSetUp)
	case code == sqliteIO && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)):
		return Verdict{Meaning: providerkit.Meaning{Advice: adviceFullDisk}}
	}
	v := sqliteCodes[code]
	v.RolledBack = v.Class != providerkit.Unknown
	return v
}

// sqliteCode returns the result code in an error from an SQLite driver, or 0. The error is a number
// itself, or has a method or field Code. No driver's type is named, so that no program links a driver that
// it does not use.
func sqliteCode(err error) int {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	for _, err := range chain(err) {
		v := reflect.ValueOf(err)
		if !strings.Contains(reflect.Indirect(v).Type().PkgPath(), "sqlite") {
			continue
		}
		if method := v.MethodByName("Code"); method.IsValid() && method.Type().NumIn() == 0 && method.Type().NumOut() == 1 {
			v = method.Call(nil)[0]
		}
		switch v = reflect.Indirect(v); {
		case v.CanInt():
			return int(v.Int())
		case v.CanUint():
			return int(v.Uint())
		case v.Kind() == reflect.Struct && v.FieldByName("Code").CanInt(): // mattn's
			return int(v.FieldByName("Code").Int())
		}
	}
	return 0
}

// chain returns an error and those that it wraps, in the order of errors.As.
func chain(err error) (all []error) {
	if err == nil {
		return nil
	}
	all = []error{err}
	switch err := err.(type) { //nolint:errorlint // this walks the chain
	case interface{ Unwrap() error }:
		return append(all, chain(err.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, err := range err.Unwrap() {
			all = append(all, chain(err)...)
		}
	}
	return all
}
