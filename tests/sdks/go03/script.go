package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/eventqueue"
)

const prefix = "script:"

// tick is the pause between two events of a `tick` step.
const tick = 50 * time.Millisecond

// states maps a step to the state that it sets.
var states = map[string]a2a.TaskState{
	"work":   a2a.TaskStateWorking,
	"ask":    a2a.TaskStateInputRequired,
	"auth":   a2a.TaskStateAuthRequired,
	"done":   a2a.TaskStateCompleted,
	"fail":   a2a.TaskStateFailed,
	"reject": a2a.TaskStateRejected,
	"cancel": a2a.TaskStateCanceled,
}

// failures maps the name of an error to the SDK's own.
var failures = map[string]error{
	"CONTENT_TYPE_NOT_SUPPORTED": a2a.ErrUnsupportedContentType,
	"UNSUPPORTED_OPERATION":      a2a.ErrUnsupportedOperation,
	"INVALID_PARAMS":             a2a.ErrInvalidParams,
	"TASK_NOT_FOUND":             a2a.ErrTaskNotFound,
	"TASK_NOT_CANCELABLE":        a2a.ErrTaskNotCancelable,
	"INTERNAL_ERROR":             a2a.ErrInternalError,
}

// gates are named events: one message waits for what another one sets.
type gates struct {
	lock  sync.Mutex
	known map[string]chan struct{}
}

func (g *gates) at(name string) chan struct{} {
	g.lock.Lock()
	defer g.lock.Unlock()
	if g.known == nil {
		g.known = map[string]chan struct{}{}
	}
	if g.known[name] == nil {
		g.known[name] = make(chan struct{})
	}
	return g.known[name]
}

func (g *gates) free(name string) {
	gate := g.at(name)
	g.lock.Lock()
	defer g.lock.Unlock()
	select {
	case <-gate:
	default:
		close(gate)
	}
}

// scripted is an executor that does what each message says.
type scripted struct{ gates gates }

func status(at *a2asrv.RequestContext, step, text string) *a2a.TaskStatusUpdateEvent {
	state := states[step]
	event := a2a.NewStatusUpdateEvent(at, state, nil)
	event.Final = state.Terminal() || state == a2a.TaskStateInputRequired
	if text != "" {
		message := a2a.NewMessageForTask(a2a.MessageRoleAgent, at, a2a.TextPart{Text: text})
		message.ID = fmt.Sprintf("status-%s", state)
		event.Status.Message = message
	}
	return event
}

func artifact(at *a2asrv.RequestContext, id a2a.ArtifactID, name string, parts ...a2a.Part) *a2a.TaskArtifactUpdateEvent {
	event := a2a.NewArtifactUpdateEvent(at, id, parts...)
	event.Append = false
	event.Artifact.Name = name
	return event
}

func dataParts() []a2a.Part {
	raw := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("\x00\xff", 8)))
	data := map[string]any{"n": 7, "list": []any{nil, true, map[string]any{"deep": "x"}}, "half": 0.5}
	return []a2a.Part{
		a2a.DataPart{Data: data},
		a2a.FilePart{File: a2a.FileBytes{FileMeta: a2a.FileMeta{Name: "x.bin", MimeType: "image/png"}, Bytes: raw}},
		a2a.FilePart{File: a2a.FileURI{URI: "https://example.org/x.png"}},
	}
}

func steps(message *a2a.Message) [][2]string {
	text := ""
	for _, part := range message.Parts {
		if found, ok := part.(a2a.TextPart); ok {
			text = found.Text
			break
		}
	}
	rest, found := strings.CutPrefix(text, prefix)
	if !found {
		return [][2]string{{"echo", ""}}
	}
	var told [][2]string
	for _, step := range strings.Split(rest, ";") {
		verb, argument, _ := strings.Cut(strings.TrimSpace(step), " ")
		told = append(told, [2]string{verb, strings.TrimSpace(argument)})
	}
	return told
}

// Execute plays the script of a message.
func (s *scripted) Execute(ctx context.Context, at *a2asrv.RequestContext, queue eventqueue.Queue) error {
	open := false
	for _, step := range steps(at.Message) {
		verb, text := step[0], step[1]
		var event a2a.Event
		switch verb {
		case "open":
			event = a2a.NewSubmittedTask(at, at.Message)
		case "chunk", "last":
			update := artifact(at, "out", "", a2a.TextPart{Text: text})
			update.Append, update.LastChunk = open, verb == "last"
			open = verb != "last"
			event = update
		case "data":
			update := artifact(at, "data", text, dataParts()...)
			update.LastChunk, update.Metadata = true, map[string]any{"step": "data"}
			event = update
		case "copy":
			update := artifact(at, "copy", "copy", at.Message.Parts...)
			update.LastChunk, update.Artifact.Metadata = true, at.Message.Metadata
			event = update
		case "hold":
			select {
			case <-s.gates.at(text):
			case <-ctx.Done():
				return nil
			}
			continue
		case "tick":
			for waiting := true; waiting; {
				if err := queue.Write(ctx, status(at, "work", "")); err != nil {
					return err
				}
				select {
				case <-s.gates.at(text):
					waiting = false
				case <-ctx.Done():
					return nil
				case <-time.After(tick):
				}
			}
			continue
		case "free":
			s.gates.free(text)
			continue
		case "say":
			message := a2a.NewMessage(a2a.MessageRoleAgent, a2a.TextPart{Text: text})
			message.ID, message.ContextID = "said", at.ContextID
			event = message
		case "echo":
			message := a2a.NewMessage(a2a.MessageRoleAgent, at.Message.Parts...)
			message.ID, message.ContextID = "echo", at.ContextID
			message.Metadata, message.Extensions = at.Message.Metadata, at.Message.Extensions
			message.ReferenceTasks = at.Message.ReferenceTasks
			event = message
		case "raise":
			reason, words, _ := strings.Cut(text, " ")
			known := failures[reason]
			if known == nil {
				known = errors.New(reason)
			}
			return a2a.NewError(known, words)
		default:
			if _, known := states[verb]; !known {
				return fmt.Errorf("no such step: %q", verb)
			}
			event = status(at, verb, text)
		}
		if err := queue.Write(ctx, event); err != nil {
			return err
		}
	}
	return nil
}

// Cancel ends a task.
func (s *scripted) Cancel(ctx context.Context, at *a2asrv.RequestContext, queue eventqueue.Queue) error {
	return queue.Write(ctx, status(at, "cancel", ""))
}
