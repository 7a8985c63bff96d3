package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"iter"
	"os"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpcv0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpcv1 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

type request struct {
	ID        int             `json:"id"`
	Cancel    bool            `json:"cancel"`
	Client    int             `json:"client"`
	Operation string          `json:"operation"`
	Binding   string          `json:"binding"`
	Origin    string          `json:"origin"`
	Params    json.RawMessage `json:"params"`
}

// answers runs requests side by side and keeps a client for each number.
type answers struct {
	compat  bool
	lock    sync.Mutex
	clients map[int]*a2aclient.Client
	running map[int]context.CancelFunc
}

func (a *answers) say(id int, member string, value any) {
	line, err := json.Marshal(map[string]any{"id": id, member: value})
	if err != nil {
		line, _ = json.Marshal(map[string]any{"id": id, "error": map[string]any{"type": "INTERNAL_ERROR", "message": err.Error()}})
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	fmt.Println(string(line))
}

func (a *answers) fail(id int, err error) {
	a.say(id, "error", map[string]any{"type": a2a.ErrorReason(err), "message": err.Error()})
}

// transport is the only one that a client gets: of a card with several versions the SDK takes the newest that it has a
// transport for, and a preference would fall back to another transport.
func (a *answers) transport(binding string) a2aclient.FactoryOption {
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	switch {
	case binding == "GRPC" && a.compat:
		return grpcv0.WithGRPCTransport(plain)
	case binding == "GRPC":
		return grpcv1.WithGRPCTransport(plain)
	case binding == "JSONRPC" && a.compat:
		return a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{})
	case binding == "JSONRPC":
		return a2aclient.WithJSONRPCTransport(nil)
	case a.compat:
		return a2av0.WithRESTTransport(a2av0.RESTTransportConfig{})
	}
	return a2aclient.WithRESTTransport(nil)
}

// client reads the card of an agent and makes a client for one of its transports.
func (a *answers) client(ctx context.Context, number int, binding, origin string) (*a2aclient.Client, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if known := a.clients[number]; known != nil {
		return known, nil
	}
	resolver := agentcard.NewResolver(nil)
	if a.compat {
		resolver.CardParser = a2av0.NewAgentCardParser()
	}
	shown, err := resolver.Resolve(ctx, origin)
	if err != nil {
		return nil, err
	}
	made, err := a2aclient.NewFromCard(ctx, shown, a2aclient.WithDefaultsDisabled(), a.transport(binding))
	if err == nil {
		a.clients[number] = made
	}
	return made, err
}

// call reads the params of an operation, calls the client's method and tells its result.
func call[Req, Res any](ctx context.Context, a *answers, r request, method func(context.Context, *Req) (Res, error)) {
	params := new(Req)
	if err := json.Unmarshal(r.Params, params); err != nil {
		a.fail(r.ID, err)
		return
	}
	result, err := method(ctx, params)
	if err != nil {
		a.fail(r.ID, err)
		return
	}
	a.say(r.ID, "result", result)
}

func stream[Req any](ctx context.Context, a *answers, r request, method func(context.Context, *Req) iter.Seq2[a2a.Event, error]) {
	params := new(Req)
	if err := json.Unmarshal(r.Params, params); err != nil {
		a.fail(r.ID, err)
		return
	}
	for event, err := range method(ctx, params) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			a.fail(r.ID, err)
			return
		}
		a.say(r.ID, "event", a2a.StreamResponse{Event: event})
	}
	a.say(r.ID, "end", true)
}

func (a *answers) answer(ctx context.Context, r request) {
	client, err := a.client(ctx, r.Client, r.Binding, r.Origin)
	if err != nil {
		a.fail(r.ID, err)
		return
	}
	switch r.Operation {
	case "SendMessage":
		call(ctx, a, r, func(ctx context.Context, p *a2a.SendMessageRequest) (any, error) {
			result, err := client.SendMessage(ctx, p)
			if err != nil {
				return nil, err
			}
			return a2a.StreamResponse{Event: result.(a2a.Event)}, nil
		})
	case "SendStreamingMessage":
		stream(ctx, a, r, client.SendStreamingMessage)
	case "SubscribeToTask":
		stream(ctx, a, r, client.SubscribeToTask)
	case "GetTask":
		call(ctx, a, r, client.GetTask)
	case "ListTasks":
		call(ctx, a, r, client.ListTasks)
	case "CancelTask":
		call(ctx, a, r, client.CancelTask)
	case "CreateTaskPushNotificationConfig":
		call(ctx, a, r, client.CreateTaskPushConfig)
	case "GetTaskPushNotificationConfig":
		call(ctx, a, r, client.GetTaskPushConfig)
	case "ListTaskPushNotificationConfigs":
		call(ctx, a, r, func(ctx context.Context, p *a2a.ListTaskPushConfigRequest) (any, error) {
			configs, err := client.ListTaskPushConfigs(ctx, p)
			return map[string]any{"configs": configs}, err
		})
	case "DeleteTaskPushNotificationConfig":
		call(ctx, a, r, func(ctx context.Context, p *a2a.DeleteTaskPushConfigRequest) (any, error) {
			return map[string]any{}, client.DeleteTaskPushConfig(ctx, p)
		})
	case "GetExtendedAgentCard":
		call(ctx, a, r, client.GetExtendedAgentCard)
	default:
		a.fail(r.ID, fmt.Errorf("%w: %s", a2a.ErrUnsupportedOperation, r.Operation))
	}
}

func client(arguments []string) error {
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	compat := flags.Bool("compat", false, "speak 0.3")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	a := &answers{
		compat:  *compat,
		clients: map[int]*a2aclient.Client{},
		running: map[int]context.CancelFunc{},
	}
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return err
		}
		a.lock.Lock()
		if r.Cancel {
			if cancel := a.running[r.ID]; cancel != nil {
				cancel()
			}
			a.lock.Unlock()
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		a.running[r.ID] = cancel
		a.lock.Unlock()
		go a.answer(ctx, r)
	}
	return lines.Err()
}
