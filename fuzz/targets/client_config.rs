#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| marquetry_client_config::fuzz::client_config(data));
