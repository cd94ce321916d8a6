//! Tests against the real libzmq and msgpack, through Python.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use longboat_kv_events::{
    Batch, Event, ExtraKey, Stored,
    zmtp::{Bounds, Connection, Socket, ZmtpEvent},
};

const PYTHON: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.cache/python/bin/python3");

struct Python(Child);

impl Drop for Python {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a Python program. Prints a message and returns `None` if Python or its packages are missing.
fn python(program: &str, arguments: &[&str]) -> Option<(Python, impl BufRead + use<>)> {
    let usable = Path::new(PYTHON).exists()
        && Command::new(PYTHON)
            .args(["-c", "import zmq, msgpack"])
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
    if !usable {
        longboat_golden::skipped("no Python with pyzmq and msgpack; scripts/tools.sh fetches them");
        return None;
    }
    let mut child =
        Command::new(PYTHON).args(["-c", program]).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap());
    Some((Python(child), lines))
}

fn line(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line.trim().to_owned()
}

/// A connection over a blocking socket.
struct Peer {
    connection: Connection,
    stream: TcpStream,
    received: Vec<ZmtpEvent>,
}

impl Peer {
    fn new(socket: Socket, stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        Self { connection: Connection::new(socket, Bounds::default()), stream, received: Vec::new() }
    }

    fn flush(&mut self) {
        self.stream.write_all(&std::mem::take(&mut self.connection.output)).unwrap();
    }

    fn next(&mut self) -> ZmtpEvent {
        let mut bytes = [0; 4096];
        loop {
            self.flush();
            if !self.received.is_empty() {
                return self.received.remove(0);
            }
            let length = self.stream.read(&mut bytes).unwrap();
            assert!(length > 0, "the peer closed the connection");
            self.received = self.connection.receive(&bytes[..length]).unwrap();
        }
    }
}

#[test]
fn events_and_replays_of_libzmq_are_understood() {
    let program = r#"
import msgpack, struct, zmq
context = zmq.Context()
pub, router = context.socket(zmq.XPUB), context.socket(zmq.ROUTER)
ports = [socket.bind_to_random_port("tcp://127.0.0.1") for socket in (pub, router)]
print(*ports, flush=True)
stored = ["BlockStored", [b"\x00" * 24 + struct.pack(">Q", 2**63 + 5), -1], None, list(range(99_990, 100_006)) * 2, 16, None, "GPU",
          "adapter", [["adapter", "salt"], None], 0, "full", None]
as_map = {"type": "BlockRemoved", "block_hashes": [7], "medium": "CPU", "group_idx": 1}
payload = msgpack.packb([1.25, [stored, as_map, ["AllBlocksCleared"]], 1])
assert pub.recv() == b"\x01kv@"
pub.send_multipart([b"other", b"", b""])
pub.send_multipart([b"kv@pod@model", struct.pack(">Q", 9), payload])
client, empty, start = router.recv_multipart()
assert empty == b""
for sequence in range(struct.unpack(">Q", start)[0], 9):
    router.send_multipart([client, b"", struct.pack(">Q", sequence), payload])
router.send_multipart([client, b"", struct.pack(">q", -1), b""])
pub.recv()
"#;
    let Some((_python, mut lines)) = python(program, &[]) else { return };
    let ports = line(&mut lines);
    let mut ports =
        ports.split(' ').map(|port| TcpStream::connect(("127.0.0.1", port.parse().unwrap())).unwrap());
    let mut sub = Peer::new(Socket::Sub, ports.next().unwrap());
    assert_eq!(sub.next(), ZmtpEvent::Ready);
    sub.connection.subscribe(b"kv@");
    let ZmtpEvent::Message(frames) = sub.next() else { unreachable!("a subscriber gets messages") };
    assert_eq!(frames[..2], [b"kv@pod@model".to_vec(), 9_u64.to_be_bytes().to_vec()]);
    let tokens: Vec<u32> = (99_990..100_006).collect();
    let stored = Stored {
        hashes: vec![(1 << 63) + 5, u64::MAX],
        parent: None,
        tokens: tokens.repeat(2),
        block_size: 16,
        lora_id: None,
        lora_name: Some("adapter".into()),
        medium: "gpu".into(),
        extra: vec![vec![ExtraKey::Text("salt".into())], vec![]],
    };
    let removed = Event::Removed { hashes: vec![7], medium: "cpu".into() };
    let events = vec![Event::Stored(Box::new(stored)), removed, Event::Cleared];
    assert_eq!(Batch::decode(&frames[2]), Ok(Batch { timestamp: 1.25, events, rank: Some(1), unknown: 0 }));

    let mut dealer = Peer::new(Socket::Dealer, ports.next().unwrap());
    assert_eq!(dealer.next(), ZmtpEvent::Ready);
    dealer.connection.send(&[&[][..], &7_u64.to_be_bytes()]);
    for sequence in [7_u64, 8] {
        let expected = vec![vec![], sequence.to_be_bytes().to_vec(), frames[2].clone()];
        assert_eq!(dealer.next(), ZmtpEvent::Message(expected));
    }
    assert_eq!(dealer.next(), ZmtpEvent::Message(vec![vec![], vec![0xff; 8], vec![]]));
}

#[test]
fn libzmq_receives_live_and_replayed_messages() {
    let program = r#"
import msgpack, struct, sys, zmq
context = zmq.Context()
sub, dealer = context.socket(zmq.SUB), context.socket(zmq.DEALER)
sub.setsockopt(zmq.SUBSCRIBE, b"kv@")
sub.connect(f"tcp://127.0.0.1:{sys.argv[1]}")
topic, sequence, payload = sub.recv_multipart()
print(topic.decode(), struct.unpack(">Q", sequence)[0], msgpack.unpackb(payload), flush=True)
dealer.connect(f"tcp://127.0.0.1:{sys.argv[2]}")
dealer.send_multipart([b"", struct.pack(">Q", 3)])
print(dealer.recv_multipart(), flush=True)
"#;
    let listeners = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let ports = [0, 1].map(|place: usize| listeners[place].local_addr().unwrap().port().to_string());
    let Some((_python, mut lines)) = python(program, &[&ports[0], &ports[1]]) else { return };
    let mut publisher = Peer::new(Socket::Pub, listeners[0].accept().unwrap().0);
    assert_eq!(publisher.next(), ZmtpEvent::Ready);
    assert_eq!(publisher.next(), ZmtpEvent::Subscribe(b"kv@".to_vec()));
    let stored = Stored {
        hashes: vec![u64::MAX, 1],
        tokens: vec![1, 70_000],
        block_size: 1,
        medium: "gpu".into(),
        ..Stored::default()
    };
    let batch = Batch {
        timestamp: 2.5,
        events: vec![Event::Stored(Box::new(stored)), Event::Cleared],
        ..Batch::default()
    };
    for maps in [false, true] {
        assert_eq!(Batch::decode(&batch.encode(maps)), Ok(batch.clone()));
    }
    publisher.connection.send(&[b"kv@pod".to_vec(), 4_u64.to_be_bytes().to_vec(), batch.encode(false)]);
    publisher.flush();
    assert_eq!(
        line(&mut lines),
        "kv@pod 4 [2.5, [['BlockStored', [18446744073709551615, 1], None, [1, 70000], 1, None, 'GPU', None, None], \
         ['AllBlocksCleared']]]"
    );
    let mut router = Peer::new(Socket::Router, listeners[1].accept().unwrap().0);
    assert_eq!(router.next(), ZmtpEvent::Ready);
    assert_eq!(router.next(), ZmtpEvent::Message(vec![vec![], 3_u64.to_be_bytes().to_vec()]));
    router.connection.send(&[vec![], vec![0, 1], vec![7; 300]]);
    router.flush();
    assert!(line(&mut lines).starts_with(r"[b'', b'\x00\x01', b'\x07\x07"));
}
