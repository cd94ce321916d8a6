//! Serves the progress of a download over HTTP, to whoever asks for any path.
//!
//! An init container has no permission to write to the API server, and needs none: the controller fetches the progress from it.

use std::{
    convert::Infallible,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use longboat_download::PORT_VARIABLE;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use crate::{FetchError, progress::Counters, settings::Settings};

/// The time limit of a connection. Connections are served one after the other.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(2);
/// The longest request, in bytes. Only its path and its end are examined.
const MAX_REQUEST: usize = 4096;
/// How long to wait when no connection can be accepted.
const ACCEPT_BACKOFF: Duration = Duration::from_secs(1);

/// Returns the port in the settings, if there is one.
pub(crate) fn port(settings: &Settings) -> Result<Option<u16>, FetchError> {
    let Some(text) = settings.get(PORT_VARIABLE) else { return Ok(None) };
    match text.trim().parse() {
        Ok(port @ 1..) => Ok(Some(port)),
        _ => Err(FetchError::setting(PORT_VARIABLE, format!("`{text}`: expected a port from 1 to 65535"))),
    }
}

/// Serves the progress on this port until the future is dropped. If the port is taken, this logs a warning and the download
/// goes on.
pub(crate) async fn serve(port: u16, counters: &Counters) {
    // The IPv6 address usually accepts IPv4 too. IPv4 is the fallback for kernels without IPv6.
    let everywhere: [SocketAddr; 2] =
        [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
    let listener = match TcpListener::bind(&everywhere[..]).await {
        Ok(listener) => listener,
        Err(error) => {
            tracing::warn!(port, %error, "Cannot serve the progress of this download.");
            return std::future::pending().await;
        }
    };
    let body = |_: &str| (200, serde_json::to_string(&counters.progress()).unwrap_or_default());
    match answer_all(listener, body).await {}
}

/// Answers each request on this listener with the status and the JSON for its path, until the future is dropped.
pub(crate) async fn answer_all(listener: TcpListener, body: impl Fn(&str) -> (u16, String)) -> Infallible {
    loop {
        match listener.accept().await {
            // A client that closes early or sends nothing gets no response.
            Ok((stream, _)) => drop(timeout(CONNECTION_TIMEOUT, answer(stream, &body)).await),
            Err(error) => {
                tracing::debug!(%error, "Cannot accept a connection.");
                sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, body: impl Fn(&str) -> (u16, String)) -> io::Result<()> {
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() > MAX_REQUEST || stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    let head = String::from_utf8_lossy(&request);
    let (status, body) = body(head.split(' ').nth(1).unwrap_or_default());
    let answer = format!(
        "HTTP/1.1 {status} \r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use longboat_download::Progress;

    use super::*;

    async fn ask(port: u16, request: &[u8]) -> io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
        stream.write_all(request).await?;
        let mut said = String::new();
        stream.read_to_string(&mut said).await?;
        Ok(said)
    }

    #[tokio::test]
    async fn who_asks_is_told_the_numbers_and_who_sends_too_much_is_not() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let counters = Counters::default();
        counters.files.store(2, Relaxed);
        counters.bytes.store(3000, Relaxed);
        counters.add_received(1000);
        let asking = async {
            // The server starts to listen a moment later.
            let said = loop {
                match ask(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await {
                    Ok(said) => break said,
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            };
            let (head, body) = said.split_once("\r\n\r\n").unwrap();
            assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
            let progress: Progress = serde_json::from_str(body).unwrap();
            assert_eq!((progress.files, progress.bytes, progress.bytes_done), (2, 3000, 1000));
            let flood = ask(port, &[b'a'; 3 * MAX_REQUEST]).await;
            assert!(flood.is_err() || flood.is_ok_and(|said| said.is_empty()));
        };
        tokio::select! {
            () = serve(port, &counters) => unreachable!("it listens until it is dropped"),
            () = asking => {}
        }
    }

    #[test]
    fn a_port_is_a_number_above_zero() {
        let with = |value: &str| port(&Settings::default().with(PORT_VARIABLE, value));
        assert_eq!(port(&Settings::default()).unwrap(), None);
        assert_eq!(with("9418").unwrap(), Some(9418));
        for wrong in ["0", "65536", "-1", "http"] {
            assert!(with(wrong).unwrap_err().to_string().contains(wrong));
        }
    }
}
