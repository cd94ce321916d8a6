//! Measures the cost of the wire: the CPU time per HTTP request of a processor that buffers the body, picks nothing, and
//! sends headers and body on. The example starts itself as the server, so that only the server's CPU
//! time counts. With the arguments ADDRESS and PID, it measures another plaintext processor. The server should be a release
//! build. Linux only.

use std::{
    io::{BufRead, BufReader, Write},
    net::SocketAddr,
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use longboat_extproc::{
    Action, Client, Event, Header, HeaderChanges, Headers, Incoming, Outbox, Processor, ProcessorExchange,
    ServerOptions, names, serve,
};
use tokio::{net::TcpListener, task::JoinSet};
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn std::error::Error + Send + Sync>;

struct Picker;

#[derive(Default)]
struct Held {
    headers: Headers,
    chunks: Vec<Bytes>,
}

impl Processor for Picker {
    type Exchange = Held;

    fn open(&self) -> Held {
        Held::default()
    }
}

impl ProcessorExchange for Held {
    fn handle(&mut self, incoming: Incoming, out: &mut Outbox) {
        match incoming.event {
            Event::RequestHeaders { headers, .. } => self.headers = headers,
            Event::RequestBody { body, end_of_stream } => {
                self.chunks.push(body);
                if end_of_stream {
                    let mut set = std::mem::take(&mut self.headers).0;
                    set.push(Header::new(names::DESTINATION, "10.0.0.1:8000"));
                    out.push(Action::RequestHeaders(HeaderChanges {
                        set,
                        clear_route_cache: true,
                        ..HeaderChanges::default()
                    }));
                    let last = self.chunks.len() - 1;
                    for (index, body) in self.chunks.drain(..).enumerate() {
                        out.push(Action::RequestBody { body, end_of_stream: index == last });
                    }
                }
            }
            Event::ResponseHeaders { .. } => out.push(Action::ResponseHeaders(HeaderChanges::default())),
            Event::ResponseBody { body, end_of_stream } => {
                out.push(Action::ResponseBody { body, end_of_stream });
            }
            Event::RequestTrailers(_) | Event::ResponseTrailers(_) => {}
        }
    }
}

const STREAMS: usize = 16;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let threads = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match words[..] {
        ["serve"] => threads.block_on(server()),
        [address, pid] => threads.block_on(measure(address.parse()?, pid.parse()?)),
        _ => {
            let mut server =
                Command::new(std::env::current_exe()?).arg("serve").stdout(Stdio::piped()).spawn()?;
            let mut line = String::new();
            BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut line)?;
            let measured = threads.block_on(measure(line.trim().parse()?, server.id()));
            server.kill()?;
            server.wait()?;
            measured
        }
    }
}

async fn server() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    let options = ServerOptions { threads: 2, ..ServerOptions::default() };
    serve(listener, Arc::new(Picker), options, CancellationToken::new()).await?;
    Ok(())
}

async fn measure(address: SocketAddr, pid: u32) -> Result<(), Failure> {
    for (what, bytes, chunks, requests) in [
        ("1 KB", 1 << 10, 1, 20_000_u32),
        ("1 KB and 100 chunks", 1 << 10, 100, 800),
        ("400 KB", 400 << 10, 1, 1_000),
    ] {
        let client = Client::new(address, None);
        let text = "x".repeat(bytes);
        let body = Bytes::from(format!(
            "{{\"model\":\"m\",\"messages\":[{{\"role\":\"user\",\"content\":\"{text}\"}}]}}"
        ));
        request(&client, &body, chunks).await?;
        let (cpu, started) = (cpu(pid)?, Instant::now());
        let mut tasks = JoinSet::new();
        for _ in 0..STREAMS {
            let (client, body) = (client.clone(), body.clone());
            tasks.spawn(async move {
                for _ in 0..requests as usize / STREAMS {
                    request(&client, &body, chunks).await?;
                }
                Ok::<_, Failure>(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended??;
        }
        let used = self::cpu(pid)?.saturating_sub(cpu) / requests;
        let rate = f64::from(requests) / started.elapsed().as_secs_f64();
        writeln!(std::io::stdout(), "{what}: {used:?} CPU a request, {rate:.0} requests/s")?;
    }
    Ok(())
}

/// Sends a request and its response, as a proxy would.
async fn request(client: &Client, body: &Bytes, chunks: usize) -> Result<(), Failure> {
    let mut exchange = client.open().await?;
    let mut headers = Headers::new();
    for (name, value) in [
        (":method", "POST"),
        (":path", "/v1/chat/completions"),
        (":authority", "gateway.example"),
        (":scheme", "http"),
        ("content-type", "application/json"),
        ("user-agent", "floor"),
        ("x-request-id", "4b1d2a52-3c1c-4d0a-8c70-6f8f3c1b8a11"),
        ("x-forwarded-proto", "http"),
    ] {
        headers.push(name, value);
    }
    exchange.send(Event::RequestHeaders { headers, end_of_stream: false }).await?;
    let (mut sender, mut receiver) = exchange.split();
    let sending = async {
        // Envoy's usual chunk size.
        let mut chunks = body.chunks(32 << 10).peekable();
        while let Some(chunk) = chunks.next() {
            let end_of_stream = chunks.peek().is_none();
            sender.send(Event::RequestBody { body: body.slice_ref(chunk), end_of_stream }).await?;
        }
        Ok::<_, Failure>(())
    };
    let receiving = async {
        loop {
            let reply = receiver.receive().await?.ok_or("the stream ended early")?;
            if matches!(reply.action, Action::RequestBody { end_of_stream: true, .. }) {
                return Ok::<_, Failure>(());
            }
        }
    };
    tokio::try_join!(sending, receiving)?;
    let mut headers = Headers::new();
    headers.push(":status", "200");
    sender.send(Event::ResponseHeaders { headers, end_of_stream: false }).await?;
    receiver.receive().await?.ok_or("the stream ended early")?;
    for chunk in 1..=chunks {
        let body = Bytes::from_static(b"data: {\"choices\":[{\"delta\":{\"content\":\" sea\"}}]}\n\n");
        sender.send(Event::ResponseBody { body, end_of_stream: chunk == chunks }).await?;
        receiver.receive().await?.ok_or("the stream ended early")?;
    }
    Ok(())
}

/// Returns the user and system time of a process so far.
fn cpu(pid: u32) -> Result<Duration, Failure> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let (_, fields) = stat.rsplit_once(')').ok_or("no process name")?;
    let ticks: u64 =
        fields.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    // Every Linux has 100 ticks per second.
    Ok(Duration::from_millis(ticks * 10))
}
