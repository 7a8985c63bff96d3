//! An agent and a client of the Rust SDK to test against: A2A 1.0 on three bindings.
//!
//!     rust-sdk agent [--binding NAME]...   plays scripts, until its standard input ends
//!     rust-sdk client                      answers requests on standard input, see ../lines.md

mod agent;
mod client;
mod script;

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("agent") => agent::run(&arguments[1..]).await,
        Some("client") => client::run().await,
        _ => {
            eprintln!("rust-sdk agent|client");
            std::process::exit(2);
        }
    }
}
