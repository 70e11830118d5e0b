/* H4: one of many libraries with thread-local storage of the initial-exec kind, for which the C
 * library has little room once a program runs. TLS_BYTES says how much this one takes. */
static __thread char storage[TLS_BYTES] __attribute__((tls_model("initial-exec"), aligned(16)));

char *crowd_storage(void)
{
	return storage;
}
