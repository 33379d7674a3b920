// The first program of a user of auth. It prints which credentials a sign-in would use, and sends no request.
package main

import (
	"fmt"
	"log"

	"github.com/distributedleasing/leasing/auth"
)

func main() {
	options, err := auth.FromEnvironment()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(auth.Explain(options))
	if _, err := auth.New(options); err != nil {
		log.Fatal(err)
	}
}
