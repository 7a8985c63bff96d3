package main

import (
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2agrpc"
	"github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/push"
	"google.golang.org/grpc"
)

func card(interfaces []a2a.AgentInterface, extended bool) *a2a.AgentCard {
	made := &a2a.AgentCard{
		Name: "Scripted (Go 0.3)", Description: "Does what it is told", Version: "1.2.3",
		ProtocolVersion: string(a2a.Version),
		URL:             interfaces[0].URL, PreferredTransport: interfaces[0].Transport,
		AdditionalInterfaces:              interfaces,
		Capabilities:                      a2a.AgentCapabilities{Streaming: true, PushNotifications: true},
		SupportsAuthenticatedExtendedCard: true,
		DefaultInputModes:                 []string{"text/plain"},
		DefaultOutputModes:                []string{"text/plain"},
		Skills:                            []a2a.AgentSkill{{ID: "script", Name: "Script", Description: "Plays a script", Tags: []string{"test"}}},
	}
	if extended {
		more := a2a.AgentSkill{ID: "more", Name: "More", Description: "For those who may", Tags: []string{"extended"}}
		made.Skills = append(made.Skills, more)
	}
	return made
}

func listen() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

func agent(arguments []string) error {
	var wanted names
	flags := flag.NewFlagSet("agent", flag.ExitOnError)
	flags.Var(&wanted, "binding", "a binding to serve; all of them unless named")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if len(wanted) == 0 {
		wanted = names{"JSONRPC", "GRPC"}
	}
	web, err := listen()
	if err != nil {
		return err
	}
	rpc, err := listen()
	if err != nil {
		return err
	}
	http1 := "http://" + web.Addr().String()
	urls := map[string]string{"JSONRPC": http1 + "/", "GRPC": rpc.Addr().String()}
	var interfaces []a2a.AgentInterface
	for _, binding := range wanted {
		interfaces = append(interfaces, a2a.AgentInterface{Transport: a2a.TransportProtocol(binding), URL: urls[binding]})
	}
	handler := a2asrv.NewHandler(
		&scripted{},
		a2asrv.WithExtendedAgentCard(card(interfaces, true)),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(nil)),
	)
	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card(interfaces, false)))
	if slices.Contains(wanted, "JSONRPC") {
		mux.Handle("POST /{$}", a2asrv.NewJSONRPCHandler(handler))
	}
	server := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(server)
	go func() { _ = http.Serve(web, mux) }()
	go func() { _ = server.Serve(rpc) }()
	fmt.Printf("ready http=%s grpc=%s\n", http1, rpc.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
