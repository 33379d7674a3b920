package filelease

import (
	"io/fs"
	"reflect"
)

// identity is what tells a file from others of the machine: fields of syscall.Stat_t,
// whose types differ between systems; zeros where there is none.
func identity(info fs.FileInfo) (device, inode uint64) {
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
	return field("Dev"), field("Ino")
}
