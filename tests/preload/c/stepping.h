/* Interrupts a program before each of its instructions, by the processor's trap flag: SIGTRAP. After
 * "check.h". */
#ifndef STEPPING_H
#define STEPPING_H

#ifdef __x86_64__
static inline void set_stepping(int on)
{
	if (on)
		__asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
	else
		__asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
}
#endif

#endif
