#![no_main]

#[path = "../src/kv_events.rs"]
mod kv_events;

libfuzzer_sys::fuzz_target!(|data: &[u8]| kv_events::kv_events(data));
