package filelock

import (
	"io/fs"
	"reflect"
)

// file identifies a file on this machine.
type file struct{ device, inode uint64 }

// identity returns the identity of a file, and the number of its hard links. It reads fields of
// syscall.Stat_t, whose types differ between systems. On systems without these fields it returns
// zeros.
func identity(info fs.FileInfo) (one file, links uint64) {
	stat := reflect.Indirect(reflect.ValueOf(info.Sys()))
	field := func(name string) uint64 {
		if stat.Kind() != reflect.Struct {
			return 0
		}
		switch v := stat.FieldByName(name); {
		case v.IsValid() && v.CanUint():
			return v.Uint()
		case v.IsValid() && v.CanInt():
			return uint64(v.Int())
		}
		return 0
	}
	return file{field("Dev"), field("Ino")}, field("Nlink")
}
