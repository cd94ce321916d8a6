//! Payloads that are written and read.

use super::{encode::integers, *};
use crate::msgpack::Writer;

#[test]
fn both_forms_are_read_as_they_were_written() {
    let stored = Stored {
        hashes: vec![1, u64::MAX],
        parent: Some(300),
        tokens: (0..32).map(|token| token * 5000).collect(),
        block_size: 16,
        lora_name: Some("adapter".into()),
        lora_id: Some(3),
        medium: "cpu".into(),
        extra: vec![vec![ExtraKey::Text("salt".into()), ExtraKey::Other(vec![0x92, 1, 2])], vec![]],
    };
    let events = vec![
        Event::Stored(Box::new(stored)),
        Event::Removed { hashes: vec![1], medium: "gpu".into() },
        Event::Cleared,
    ];
    let batch = Batch { timestamp: 1.5, events, rank: Some(3), unknown: 0 };
    for maps in [false, true] {
        assert_eq!(Batch::decode(&batch.encode(maps)).as_ref(), Ok(&batch));
    }
}

#[test]
fn a_payload_that_is_cut_anywhere_is_refused() {
    let events = vec![Event::Stored(Box::new(Stored {
        hashes: vec![1],
        tokens: vec![70_000; 4],
        block_size: 4,
        medium: "gpu".into(),
        ..Stored::default()
    }))];
    let encoded = Batch { events, ..Batch::default() }.encode(false);
    for length in 0..encoded.len() {
        assert!(Batch::decode(&encoded[..length]).is_err(), "{length}");
    }
}

#[test]
fn short_events_of_old_releases_and_unknown_ones_are_read() {
    // [1.0, [["BlockStored", [7], nil, [1, 2], 2, nil], ["Other", {}], ["BlockRemoved", [<9 bytes>]]]]
    let mut writer = Writer::default();
    writer.array(2);
    writer.float(1.0);
    writer.array(3);
    writer.array(6);
    writer.text("BlockStored");
    integers(&mut writer, [7].into_iter());
    writer.nil();
    integers(&mut writer, [1, 2].into_iter());
    writer.integer(2);
    writer.nil();
    writer.array(2);
    writer.text("Other");
    writer.map(0);
    writer.array(2);
    writer.text("BlockRemoved");
    writer.array(1);
    writer.bytes.extend([0xc4, 9, 1, 0, 0, 0, 0, 0, 0, 0, 7]);
    let batch = Batch::decode(&writer.bytes).unwrap();
    assert_eq!(batch.unknown, 1);
    assert_eq!(batch.events[1], Event::Removed { hashes: vec![7], medium: "gpu".into() });
    let Event::Stored(stored) = &batch.events[0] else { panic!("{batch:?}") };
    assert_eq!((stored.tokens.as_slice(), stored.parent, stored.medium.as_str()), (&[1, 2][..], None, "gpu"));
}

#[test]
fn lengths_that_the_payload_cannot_hold_allocate_nothing() {
    let error = Batch::decode(&[0x92, 0x01, 0xdd, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
    assert_eq!(error.to_string(), "malformed KV event: expected an array at byte 2");
}

#[test]
fn a_payload_that_has_its_events_twice_gets_no_more_of_them() {
    let mut writer = Writer::default();
    writer.map(2);
    for _ in 0..2 {
        writer.text("events");
        writer.array(40_000);
        for _ in 0..40_000 {
            writer.array(1);
            writer.text("x");
        }
    }
    let error = Batch::decode(&writer.bytes).unwrap_err();
    assert_eq!(error.to_string(), "a KV event payload has more than 65536 events");
}
