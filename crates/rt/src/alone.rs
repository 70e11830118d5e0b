//! Has it found out, as the program starts or the library is loaded, where the C library says
//! whether there is one thread ([`freehold_sys::alone`]).

use freehold_sys::alone;

extern "C" fn find() {
    alone::find();
}

#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = find;
