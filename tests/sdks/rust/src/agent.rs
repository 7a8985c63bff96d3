use std::sync::Arc;

use a2a::{AgentCapabilities, AgentCard, AgentInterface, AgentSkill};
use a2a_grpc::GrpcHandler;
use a2a_pb::proto::a2a_service_server::A2aServiceServer;
use a2a_server::agent_card::agent_card_router;
use a2a_server::jsonrpc::jsonrpc_router;
use a2a_server::rest::rest_router;
use a2a_server::{DefaultRequestHandler, InMemoryPushConfigStore, InMemoryTaskStore, StaticAgentCard};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;

use crate::script::Scripted;

fn skill(id: &str, name: &str, description: &str, tag: &str) -> AgentSkill {
    AgentSkill {
        id: id.into(),
        name: name.into(),
        description: description.into(),
        tags: vec![tag.into()],
        examples: None,
        input_modes: None,
        output_modes: None,
        security_requirements: None,
    }
}

pub fn card(interfaces: Vec<AgentInterface>, extended: bool) -> AgentCard {
    let mut skills = vec![skill("script", "Script", "Plays a script", "test")];
    if extended {
        skills.push(skill("more", "More", "For those who may", "extended"));
    }
    AgentCard {
        name: "Scripted (Rust)".into(),
        description: "Does what it is told".into(),
        version: "1.2.3".into(),
        supported_interfaces: interfaces,
        capabilities: AgentCapabilities {
            streaming: Some(true),
            push_notifications: Some(true),
            extensions: None,
            extended_agent_card: Some(true),
        },
        default_input_modes: vec!["text/plain".into()],
        default_output_modes: vec!["text/plain".into()],
        skills,
        provider: None,
        documentation_url: None,
        icon_url: None,
        security_schemes: None,
        security_requirements: None,
        signatures: None,
    }
}

pub async fn run(arguments: &[String]) {
    let mut wanted: Vec<&str> = arguments.chunks(2).map(|pair| pair[1].as_str()).collect();
    if wanted.is_empty() {
        wanted = vec!["JSONRPC", "HTTP+JSON", "GRPC"];
    }
    let web = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let rpc = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let http = format!("http://{}", web.local_addr().unwrap());
    let grpc = rpc.local_addr().unwrap().to_string();
    let interfaces: Vec<_> = wanted
        .iter()
        .map(|binding| match *binding {
            "JSONRPC" => AgentInterface::new(format!("{http}/"), "JSONRPC"),
            "GRPC" => AgentInterface::new(grpc.clone(), "GRPC"),
            other => AgentInterface::new(http.clone(), other),
        })
        .collect();
    let handler = Arc::new(
        DefaultRequestHandler::new(Scripted::default(), InMemoryTaskStore::new())
            .with_push_config_store(InMemoryPushConfigStore::new())
            .with_capabilities(card(vec![], false).capabilities)
            .with_extended_agent_card(card(interfaces.clone(), true)),
    );
    let mut routes = agent_card_router(Arc::new(StaticAgentCard::new(card(interfaces, false))));
    if wanted.contains(&"JSONRPC") {
        routes = routes.merge(jsonrpc_router(handler.clone()));
    }
    if wanted.contains(&"HTTP+JSON") {
        routes = routes.merge(rest_router(handler.clone()));
    }
    tokio::spawn(async move { axum::serve(web, routes).await });
    let service = A2aServiceServer::new(GrpcHandler::new(handler));
    let serving = tonic::transport::Server::builder().add_service(service);
    tokio::spawn(serving.serve_with_incoming(TcpListenerStream::new(rpc)));
    println!("ready http={http} grpc={grpc}");
    let mut rest = Vec::new();
    let _ = tokio::io::stdin().read_to_end(&mut rest).await;
    std::process::exit(0);
}
