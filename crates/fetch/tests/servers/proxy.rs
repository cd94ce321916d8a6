//! A proxy that injects faults before a real server.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
};

use super::{Answer, Handler, Request};

/// Headers that belong to one connection.
const OWN: [&str; 3] = ["connection", "transfer-encoding", "keep-alive"];

/// Forwards requests to a server, `HOST:PORT`. The requests have no bodies, because models are only read.
pub fn to(upstream: String) -> Handler {
    Arc::new(move |request| tokio::task::block_in_place(|| forward(&upstream, request)))
}

fn forward(upstream: &str, request: &Request) -> Answer {
    let mut stream = TcpStream::connect(upstream).unwrap();
    let mut head = format!("{} {} HTTP/1.1\r\n", request.method, request.target);
    for (name, value) in request.headers.iter().filter(|(name, _)| !OWN.contains(&name.as_str())) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}connection: close\r\n\r\n").as_bytes()).unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    answer(&said)
}

fn answer(said: &[u8]) -> Answer {
    let end = said.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&said[..end]).into_owned();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let is_chunked = headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let body = if is_chunked { unchunked(&said[end + 4..]) } else { said[end + 4..].to_vec() };
    let mut answer = Answer::new(status, body);
    answer.headers = headers.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str())).collect();
    answer
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|bytes| bytes == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        body.extend_from_slice(&rest[end + 2..end + 2 + size]);
        rest = &rest[end + 4 + size..];
    }
    body
}
