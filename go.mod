module github.com/distributedleasing/leasing

go 1.26.0
