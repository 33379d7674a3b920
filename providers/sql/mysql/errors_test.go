package mysqllease

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"
)

// T156, T157: the error numbers of MariaDB and MySQL determine the error's class.
func TestTrap_T156_WhatMySQLsNumbersDecide(t *testing.T) {
	for class, numbers := range map[providerkit.Class][]int{
		providerkit.Denied:   {1045, 1820, 1862, 4151, 3118, 3159, 3955, 1251, 2061, 1275, 1524},
		providerkit.Refused:  {1205, 1213, 1040, 1792, 1836, 3032, 1047, 4031},
		providerkit.NotSetUp: {1146, 1176, 1286, 1288, 1290, 1471},
		providerkit.Unknown:  {1053, 1927, 1180, 1317, 4711},
	} {
		for _, number := range numbers {
			v := verdict(numberedError(number, "the server is running with the --enforce-storage-engine option"))
			require.Equal(t, class, v.Class, number)
		}
	}
	for _, option := range []string{"--read-only", "--super-read-only", "innodb_read_only", "READ_ONLY"} {
		v := verdict(numberedError(1290, "the server is running with the "+option+" option"))
		require.Equal(t, providerkit.Refused, v.Class, option)
		require.True(t, v.Close, option)
	}
	for number, closed := range map[int]bool{1792: true, 1836: true, 1053: true, 1927: true, 4031: true, 1205: false, 1045: false} {
		require.Equal(t, closed, verdict(numberedError(number, "")).Close, number)
	}
}

func numberedError(number int, message string) error {
	return &mysql.MySQLError{Number: uint16(number), Message: message}
}
