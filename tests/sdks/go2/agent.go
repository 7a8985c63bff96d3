package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"google.golang.org/grpc"
)

var bindings = names{"JSONRPC", "HTTP+JSON", "GRPC"}

func card(interfaces []*a2a.AgentInterface, extended bool) *a2a.AgentCard {
	made := &a2a.AgentCard{
		Name: "Scripted (Go)", Description: "Does what it is told", Version: "1.2.3",
		SupportedInterfaces: interfaces,
		Capabilities:        a2a.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: true},
		DefaultInputModes:   []string{"text/plain"},
		DefaultOutputModes:  []string{"text/plain"},
		Skills:              []a2a.AgentSkill{{ID: "script", Name: "Script", Description: "Plays a script", Tags: []string{"test"}}},
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
	compat := flags.Bool("compat", false, "speak 0.3")
	flags.Var(&wanted, "binding", "a binding to serve; all of them unless named")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if len(wanted) == 0 {
		wanted = bindings
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
	urls := map[string]string{"JSONRPC": http1 + "/", "HTTP+JSON": http1, "GRPC": rpc.Addr().String()}
	var interfaces []*a2a.AgentInterface
	for _, binding := range wanted {
		one := a2a.NewAgentInterface(urls[binding], a2a.TransportProtocol(binding))
		if *compat {
			one.ProtocolVersion = a2av0.Version
		}
		interfaces = append(interfaces, one)
	}
	// 2.4.0 refuses webhooks at 127.0.0.1 unless a member allows them that 2.3.1 does not have: as JSON, both releases read it.
	sending := new(push.HTTPSenderConfig)
	if err := json.Unmarshal([]byte(`{"AllowPrivateNetworks": true}`), sending); err != nil {
		return err
	}
	handler := a2asrv.NewHandler(
		&scripted{},
		a2asrv.WithExtendedAgentCard(card(interfaces, true)),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(sending)),
	)

	mux := http.NewServeMux()
	public := a2asrv.NewStaticAgentCardHandler(card(interfaces, false))
	jsonrpc, rest := a2asrv.NewJSONRPCHandler(handler), a2asrv.NewRESTHandler(handler)
	if *compat {
		public = a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(card(interfaces, false)))
		jsonrpc, rest = a2av0.NewJSONRPCHandler(handler), a2av0.NewRESTHandler(handler)
	}
	mux.Handle(a2asrv.WellKnownAgentCardPath, public)
	if slices.Contains(wanted, "JSONRPC") {
		mux.Handle("POST /{$}", jsonrpc)
	}
	if slices.Contains(wanted, "HTTP+JSON") {
		mux.Handle("/", rest)
	}
	server := grpc.NewServer()
	if *compat {
		grpcv0.NewHandler(handler).RegisterWith(server)
	} else {
		grpcv1.NewHandler(handler).RegisterWith(server)
	}
	go func() { _ = http.Serve(web, mux) }()
	go func() { _ = server.Serve(rpc) }()
	fmt.Printf("ready http=%s grpc=%s\n", http1, rpc.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
