use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex};

use a2a::errors::error_reason;
use a2a::{A2AError, StreamResponse};
use a2a_client::agent_card::AgentCardResolver;
use a2a_client::jsonrpc::JsonRpcTransportFactory;
use a2a_client::rest::RestTransportFactory;
use a2a_client::{A2AClient, A2AClientFactory, Transport, TransportFactory};
use a2a_grpc::GrpcTransportFactory;
use futures::StreamExt;
use futures::stream::BoxStream;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::AbortHandle;

type Client = A2AClient<Box<dyn Transport>>;

fn say(id: &Value, member: &str, value: Value) {
    println!("{}", json!({"id": id, member: value}));
}

fn fail(id: &Value, error: &A2AError) {
    let told = json!({"type": error_reason(error.code), "message": error.message});
    say(id, "error", told);
}

/// The only transport that a client gets: a preference would fall back to another one.
fn transport(binding: &str) -> Arc<dyn TransportFactory> {
    match binding {
        "GRPC" => Arc::new(GrpcTransportFactory::new()),
        "JSONRPC" => Arc::new(JsonRpcTransportFactory::new(None)),
        _ => Arc::new(RestTransportFactory::new(None)),
    }
}

/// A client for each number, made from the card that is served there.
#[derive(Default)]
struct Clients(tokio::sync::Mutex<HashMap<u64, Arc<Client>>>);

impl Clients {
    async fn get(&self, number: u64, binding: &str, origin: &str) -> Result<Arc<Client>, A2AError> {
        let mut known = self.0.lock().await;
        if let Some(client) = known.get(&number) {
            return Ok(client.clone());
        }
        let factory = A2AClientFactory::builder().no_defaults().register(transport(binding)).build();
        let shown = AgentCardResolver::new(None).resolve(origin).await?;
        let client = Arc::new(factory.create_from_card(&shown).await?);
        known.insert(number, client.clone());
        Ok(client)
    }
}

/// The params of an operation, or an error of A2A where they do not fit.
fn read<T: DeserializeOwned>(params: &Value) -> Result<T, A2AError> {
    serde_json::from_value(params.clone()).map_err(|error| A2AError::invalid_params(error.to_string()))
}

type Events = BoxStream<'static, Result<StreamResponse, A2AError>>;

async fn stream(id: &Value, opening: impl Future<Output = Result<Events, A2AError>>) -> Result<(), A2AError> {
    let mut events = opening.await?;
    while let Some(event) = events.next().await {
        say(id, "event", json!(event?));
    }
    say(id, "end", json!(true));
    Ok(())
}

async fn answer(clients: &Clients, request: &Value) -> Result<(), A2AError> {
    let (id, params) = (&request["id"], &request["params"]);
    let text = |member: &str| request[member].as_str().unwrap_or_default().to_string();
    let number = request["client"].as_u64().unwrap_or_default();
    let client = clients.get(number, &text("binding"), &text("origin")).await?;
    let result = match text("operation").as_str() {
        "SendMessage" => json!(client.send_message(&read(params)?).await?),
        "SendStreamingMessage" => {
            return stream(id, client.send_streaming_message(&read(params)?)).await;
        }
        "SubscribeToTask" => return stream(id, client.subscribe_to_task(&read(params)?)).await,
        "GetTask" => json!(client.get_task(&read(params)?).await?),
        "ListTasks" => json!(client.list_tasks(&read(params)?).await?),
        "CancelTask" => json!(client.cancel_task(&read(params)?).await?),
        "CreateTaskPushNotificationConfig" => json!(client.create_push_config(&read(params)?).await?),
        "GetTaskPushNotificationConfig" => json!(client.get_push_config(&read(params)?).await?),
        "ListTaskPushNotificationConfigs" => json!(client.list_push_configs(&read(params)?).await?),
        "DeleteTaskPushNotificationConfig" => {
            client.delete_push_config(&read(params)?).await?;
            json!({})
        }
        "GetExtendedAgentCard" => json!(client.get_extended_agent_card(&read(params)?).await?),
        other => return Err(A2AError::method_not_found(other)),
    };
    say(id, "result", result);
    Ok(())
}

pub async fn run() {
    let clients = Arc::new(Clients::default());
    let running: Arc<Mutex<HashMap<String, AbortHandle>>> = Arc::default();
    println!("ready");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let request: Value = serde_json::from_str(&line).expect("a request is a line of JSON");
        let id = request["id"].clone();
        if request["cancel"] == true {
            if let Some(task) = running.lock().unwrap().remove(&id.to_string()) {
                task.abort();
                say(&id, "end", json!(true));
            }
            continue;
        }
        let (clients, key) = (clients.clone(), id.to_string());
        let done = running.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = answer(&clients, &request).await {
                fail(&request["id"], &error);
            }
            done.lock().unwrap().remove(&request["id"].to_string());
        });
        running.lock().unwrap().insert(key, task.abort_handle());
    }
    std::process::exit(0);
}
