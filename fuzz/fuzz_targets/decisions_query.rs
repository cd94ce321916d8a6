#![no_main]

#[path = "../src/decisions.rs"]
mod decisions;

libfuzzer_sys::fuzz_target!(|data: &[u8]| decisions::decisions_query(data));
