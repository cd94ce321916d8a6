#![no_main]

#[path = "../src/fetch.rs"]
mod targets;

libfuzzer_sys::fuzz_target!(|data: &[u8]| targets::fetch_progress(data));
