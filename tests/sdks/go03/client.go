package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// reasons are the specification's words for the SDK's errors.
var reasons = []struct {
	err  error
	name string
}{
	{a2a.ErrTaskNotFound, "TASK_NOT_FOUND"},
	{a2a.ErrTaskNotCancelable, "TASK_NOT_CANCELABLE"},
	{a2a.ErrPushNotificationNotSupported, "PUSH_NOTIFICATION_NOT_SUPPORTED"},
	{a2a.ErrUnsupportedOperation, "UNSUPPORTED_OPERATION"},
	{a2a.ErrUnsupportedContentType, "CONTENT_TYPE_NOT_SUPPORTED"},
	{a2a.ErrInvalidAgentResponse, "INVALID_AGENT_RESPONSE"},
	{a2a.ErrAuthenticatedExtendedCardNotConfigured, "EXTENDED_AGENT_CARD_NOT_CONFIGURED"},
	{a2a.ErrParseError, "PARSE_ERROR"},
	{a2a.ErrInvalidRequest, "INVALID_REQUEST"},
	{a2a.ErrMethodNotFound, "METHOD_NOT_FOUND"},
	{a2a.ErrInvalidParams, "INVALID_PARAMS"},
	{a2a.ErrUnauthenticated, "UNAUTHENTICATED"},
	{a2a.ErrUnauthorized, "PERMISSION_DENIED"},
}

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
	name := "INTERNAL_ERROR"
	for _, known := range reasons {
		if errors.Is(err, known.err) {
			name = known.name
			break
		}
	}
	a.say(id, "error", map[string]any{"type": name, "message": err.Error()})
}

// transport is the only one that a client gets: a preference would fall back to another one.
func transport(binding string) a2aclient.FactoryOption {
	if binding == "GRPC" {
		return a2aclient.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	return a2aclient.WithJSONRPCTransport(nil)
}

// client reads the card of an agent and makes a client for one of its transports.
func (a *answers) client(ctx context.Context, number int, binding, origin string) (*a2aclient.Client, error) {
	a.lock.Lock()
	defer a.lock.Unlock()
	if known := a.clients[number]; known != nil {
		return known, nil
	}
	shown, err := agentcard.DefaultResolver.Resolve(ctx, origin)
	if err != nil {
		return nil, err
	}
	made, err := a2aclient.NewFromCard(ctx, shown, a2aclient.WithDefaultsDisabled(), transport(binding))
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
		a.say(r.ID, "event", event)
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
	case "message/send":
		call(ctx, a, r, client.SendMessage)
	case "message/stream":
		stream(ctx, a, r, client.SendStreamingMessage)
	case "tasks/resubscribe":
		stream(ctx, a, r, client.ResubscribeToTask)
	case "tasks/get":
		call(ctx, a, r, client.GetTask)
	case "tasks/cancel":
		call(ctx, a, r, client.CancelTask)
	case "tasks/pushNotificationConfig/set":
		call(ctx, a, r, client.SetTaskPushConfig)
	case "tasks/pushNotificationConfig/get":
		call(ctx, a, r, client.GetTaskPushConfig)
	case "tasks/pushNotificationConfig/list":
		call(ctx, a, r, client.ListTaskPushConfig)
	case "tasks/pushNotificationConfig/delete":
		call(ctx, a, r, func(ctx context.Context, p *a2a.DeleteTaskPushConfigParams) (any, error) {
			return nil, client.DeleteTaskPushConfig(ctx, p)
		})
	case "agent/getAuthenticatedExtendedCard":
		shown, err := client.GetAgentCard(ctx)
		if err != nil {
			a.fail(r.ID, err)
			return
		}
		a.say(r.ID, "result", shown)
	default:
		a.fail(r.ID, fmt.Errorf("%w: %s", a2a.ErrMethodNotFound, r.Operation))
	}
}

func client() error {
	a := &answers{clients: map[int]*a2aclient.Client{}, running: map[int]context.CancelFunc{}}
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
