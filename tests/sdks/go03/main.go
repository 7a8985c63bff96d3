// An agent and a client of a2a-go 0.3 to test against: A2A 0.3 over JSON-RPC and gRPC.
//
//	go03 agent [--binding NAME]...   plays scripts, until its standard input ends
//	go03 client                      answers requests on standard input, see ../lines.md
package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
)

// names collects the values of a flag that may be repeated.
type names []string

func (n *names) String() string     { return fmt.Sprint(*n) }
func (n *names) Set(s string) error { *n = append(*n, s); return nil }

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "go03 agent|client")
		os.Exit(2)
	}
	var err error
	switch os.Args[1] {
	case "agent":
		err = agent(os.Args[2:])
	case "client":
		err = client()
	default:
		err = fmt.Errorf("go03 agent|client, not %s", os.Args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
