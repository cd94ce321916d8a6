//! scratch
#[tokio::main]
async fn main() {
    longboat_tls::install_default_provider();
    let server = longboat_apiserver::ApiServer::new(longboat_apiserver::Options::default()).unwrap();
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", std::env::args().nth(1).unwrap().parse().unwrap())).await.unwrap();
    let shutdown = tokio_util::sync::CancellationToken::new();
    server.serve(listener, None, shutdown).await.unwrap();
}
