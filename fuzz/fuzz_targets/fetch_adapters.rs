#![no_main]

#[path = "../src/fetch.rs"]
mod fetch;

libfuzzer_sys::fuzz_target!(|data: &[u8]| fetch::fetch_adapters(data));
