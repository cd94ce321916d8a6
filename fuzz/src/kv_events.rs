//! Fuzz target of KV cache events. The test that replays the stored corpus shares this file.
#![allow(dead_code, reason = "each fuzz target uses one of them")]

use longboat_kv_events::{
    Batch, Index, Limits,
    zmtp::{Bounds, Connection, Socket, ZmtpEvent},
};

/// A target runs on one input.
pub(crate) type Target = fn(&[u8]);

/// All targets by name. The folders of the corpus have the same names.
pub(crate) const ALL: [(&str, Target); 1] = [("kv_events", kv_events)];

/// The first byte selects the kind of input: bytes of a connection, or an event payload. Bytes of a connection must give the
/// same result in one piece and in chunks. A decoded payload must be accepted by the index, and must decode to as many events
/// after each form of encoding.
pub(crate) fn kv_events(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let sockets = [Socket::Sub, Socket::Pub, Socket::Dealer, Socket::Router];
    if let Some(&socket) = sockets.get(usize::from(choice)) {
        let whole = receive(socket, [data].into_iter());
        let pieces = receive(socket, data.chunks(3));
        assert_eq!(whole.is_none(), pieces.is_none(), "one piece and many differ");
        if whole.is_some() {
            assert_eq!(whole, pieces);
        }
        return;
    }
    let Ok(batch) = Batch::decode(data) else { return };
    let mut index = Index::new(Limits { block_tokens: 2, entries: 8, ..Limits::default() });
    for event in &batch.events {
        index.apply(1, "model", event);
    }
    assert!(index.len() <= 8);
    for maps in [false, true] {
        let again = Batch::decode(&batch.encode(maps)).expect("what was read can be written");
        assert_eq!(again.events.len(), batch.events.len());
    }
}

fn receive<'a>(socket: Socket, pieces: impl Iterator<Item = &'a [u8]>) -> Option<Vec<ZmtpEvent>> {
    let mut connection = Connection::new(socket, Bounds { message: 1024, frames: 4 });
    let mut received = Vec::new();
    for piece in pieces {
        received.extend(connection.receive(piece).ok()?);
    }
    Some(received)
}
