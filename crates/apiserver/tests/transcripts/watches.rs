//! Watches whose clients do not read.

use longboat_apiserver::Options;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::asking::{create, serve};

const SIZE: usize = 1_000_000;
/// So many objects do not fit into the buffers of a socket.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const MIB: usize = 1024 * 1024;

#[tokio::test]
async fn the_slowest_watches_are_closed_when_too_much_waits_and_the_others_go_on() {
    let (server, address, shutdown) = serve(Options { unsent_limit: 16 * MIB, ..Options::default() }).await;
    let client = server.client("default");
    let maps = "/api/v1/namespaces/default/configmaps";
    for name in NAMES {
        create(&client, maps, &json!({"metadata": {"name": name}, "data": {"k": "v".repeat(SIZE)}})).await;
    }
    let open = || async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {maps}?watch=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut first = [0; 1];
        stream.read_exact(&mut first).await.unwrap();
        stream
    };
    let mut watches = Vec::new();
    for _ in 0..40 {
        watches.push(open().await);
    }
    // One client reads, even though the others do not.
    let mut reading = open().await;
    let mut read = 0;
    let mut buffer = vec![0; 64 * 1024];
    while read < NAMES.len() * SIZE {
        let more = reading.read(&mut buffer).await.unwrap();
        assert!(more > 0, "the watch that reads ended after {read} bytes");
        read += more;
    }
    let mut closed = 0;
    for mut watch in watches {
        let mut read = 0;
        while read < NAMES.len() * SIZE {
            match watch.read(&mut buffer).await {
                Ok(0) | Err(_) => {
                    closed += 1;
                    break;
                }
                Ok(more) => read += more,
            }
        }
    }
    // Each watch lets at least one object wait.
    assert!(closed >= 40 - 16 * MIB / SIZE, "{closed} of 40 were closed");
    shutdown.cancel();
}
