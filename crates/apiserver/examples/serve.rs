//! An API server on its own: `cargo run -p longboat-apiserver --example serve -- --listen 127.0.0.1:0 --no-auth`.

use clap::Parser;
use longboat_apiserver::{Args, run};
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Command {
    #[command(flatten)]
    args: Args,
}

#[tokio::main]
async fn main() -> Result<(), longboat_apiserver::Error> {
    longboat_tls::install_default_provider();
    run(Command::parse().args, CancellationToken::new()).await
}
