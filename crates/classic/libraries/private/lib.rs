//! The library of the model `private`.

#![no_std]

freehold_classic::export!("freehold_model_private", freehold_classic::Private);
