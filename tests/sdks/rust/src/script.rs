use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a::errors::reason_to_error_code;
use a2a::*;
use a2a_server::{AgentExecutor, ExecutorContext};
use futures::stream::BoxStream;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

const PREFIX: &str = "script:";
/// The pause between two events of a `tick` step.
const TICK: Duration = Duration::from_millis(50);

type Told = Result<StreamResponse, A2AError>;

/// Named events: one message waits for what another one sets.
#[derive(Clone, Default)]
struct Gates(Arc<Mutex<HashMap<String, watch::Sender<bool>>>>);

impl Gates {
    fn at(&self, name: &str) -> watch::Receiver<bool> {
        let mut known = self.0.lock().unwrap();
        known
            .entry(name.into())
            .or_insert_with(|| watch::channel(false).0)
            .subscribe()
    }

    fn free(&self, name: &str) {
        let mut known = self.0.lock().unwrap();
        known
            .entry(name.into())
            .or_insert_with(|| watch::channel(false).0)
            .send_replace(true);
    }
}

/// An executor that does what each message says.
#[derive(Default)]
pub struct Scripted {
    gates: Gates,
}

impl AgentExecutor for Scripted {
    fn execute(&self, context: ExecutorContext) -> BoxStream<'static, Told> {
        let (sender, receiver) = mpsc::channel(1);
        let gates = self.gates.clone();
        tokio::spawn(async move {
            let ended = sender.clone();
            tokio::select! {
                () = play(context, gates, sender) => {}
                () = ended.closed() => {}
            }
        });
        Box::pin(ReceiverStream::new(receiver))
    }

    fn cancel(&self, context: ExecutorContext) -> BoxStream<'static, Told> {
        let event = status(&context, TaskState::Canceled, "");
        Box::pin(futures::stream::iter([Ok(event)]))
    }
}

fn state(verb: &str) -> Option<TaskState> {
    Some(match verb {
        "work" => TaskState::Working,
        "ask" => TaskState::InputRequired,
        "auth" => TaskState::AuthRequired,
        "done" => TaskState::Completed,
        "fail" => TaskState::Failed,
        "reject" => TaskState::Rejected,
        "cancel" => TaskState::Canceled,
        _ => return None,
    })
}

fn status(at: &ExecutorContext, state: TaskState, text: &str) -> StreamResponse {
    let message = (!text.is_empty()).then(|| Message {
        message_id: format!("status-{}", json!(state).as_str().unwrap()),
        context_id: Some(at.context_id.clone()),
        task_id: Some(at.task_id.clone()),
        ..Message::new(Role::Agent, vec![Part::text(text)])
    });
    StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
        task_id: at.task_id.clone(),
        context_id: at.context_id.clone(),
        status: TaskStatus {
            state,
            message,
            timestamp: Some(chrono::Utc::now()),
        },
        metadata: None,
    })
}

fn artifact(at: &ExecutorContext, id: &str, name: &str, parts: Vec<Part>) -> TaskArtifactUpdateEvent {
    TaskArtifactUpdateEvent {
        task_id: at.task_id.clone(),
        context_id: at.context_id.clone(),
        artifact: Artifact {
            artifact_id: id.into(),
            name: (!name.is_empty()).then(|| name.into()),
            description: None,
            parts,
            metadata: None,
            extensions: None,
        },
        append: None,
        last_chunk: None,
        metadata: None,
    }
}

fn data_parts() -> Vec<Part> {
    vec![
        Part::data(json!({"n": 7, "list": [null, true, {"deep": "x"}], "half": 0.5})),
        Part::raw([0, 255].repeat(8))
            .with_filename("x.bin")
            .with_media_type("image/png"),
        Part::url("https://example.org/x.png"),
    ]
}

fn steps(message: &Message) -> Vec<(String, String)> {
    let Some(rest) = message.text().and_then(|text| text.strip_prefix(PREFIX)) else {
        return vec![("echo".into(), String::new())];
    };
    rest.split(';')
        .map(|step| {
            let (verb, text) = step.trim().split_once(' ').unwrap_or((step.trim(), ""));
            (verb.into(), text.trim().into())
        })
        .collect()
}

/// Plays the script of a message.
async fn play(at: ExecutorContext, gates: Gates, told: mpsc::Sender<Told>) {
    let message = at
        .message
        .clone()
        .unwrap_or_else(|| Message::new(Role::User, vec![]));
    let mut open = false;
    for (verb, text) in steps(&message) {
        let event = match verb.as_str() {
            "open" => Ok(StreamResponse::Task(Task {
                id: at.task_id.clone(),
                context_id: at.context_id.clone(),
                status: TaskStatus {
                    state: TaskState::Submitted,
                    message: None,
                    timestamp: Some(chrono::Utc::now()),
                },
                artifacts: None,
                history: Some(vec![message.clone()]),
                metadata: None,
            })),
            "chunk" | "last" => {
                let mut update = artifact(&at, "out", "", vec![Part::text(&text)]);
                update.append = Some(open);
                update.last_chunk = Some(verb == "last");
                open = verb != "last";
                Ok(StreamResponse::ArtifactUpdate(update))
            }
            "data" => {
                let mut update = artifact(&at, "data", &text, data_parts());
                update.last_chunk = Some(true);
                update.metadata = Some(HashMap::from([("step".into(), Value::from("data"))]));
                Ok(StreamResponse::ArtifactUpdate(update))
            }
            "copy" => {
                let mut update = artifact(&at, "copy", "copy", message.parts.clone());
                update.last_chunk = Some(true);
                update.artifact.metadata = message.metadata.clone();
                Ok(StreamResponse::ArtifactUpdate(update))
            }
            "hold" => {
                let _ = gates.at(&text).wait_for(|set| *set).await;
                continue;
            }
            "tick" => {
                let mut gate = gates.at(&text);
                while !*gate.borrow() {
                    if told.send(Ok(status(&at, TaskState::Working, ""))).await.is_err() {
                        return;
                    }
                    let _ = tokio::time::timeout(TICK, gate.changed()).await;
                }
                continue;
            }
            "free" => {
                gates.free(&text);
                continue;
            }
            "say" => Ok(StreamResponse::Message(Message {
                message_id: "said".into(),
                context_id: Some(at.context_id.clone()),
                ..Message::new(Role::Agent, vec![Part::text(&text)])
            })),
            "echo" => Ok(StreamResponse::Message(Message {
                message_id: "echo".into(),
                context_id: Some(at.context_id.clone()),
                task_id: None,
                role: Role::Agent,
                ..message.clone()
            })),
            "raise" => {
                let (reason, words) = text.split_once(' ').unwrap_or((&text, ""));
                Err(A2AError::new(
                    reason_to_error_code(reason).unwrap_or(-32603),
                    words,
                ))
            }
            other => match state(other) {
                Some(state) => Ok(status(&at, state, &text)),
                None => Err(A2AError::internal(format!("no such step: {other}"))),
            },
        };
        let over = event.is_err();
        if told.send(event).await.is_err() || over {
            return;
        }
    }
}
