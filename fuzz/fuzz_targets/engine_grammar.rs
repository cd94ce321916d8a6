#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| longboat_engine::fuzz::grammar(data));
