#![no_main]

#[path = "../src/page.rs"]
mod page;

libfuzzer_sys::fuzz_target!(|data: &[u8]| page::page_manifest(data));
