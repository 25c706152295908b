# %% without _run and the list of those that decode
class Scheduler:
    def admit(self, plan, budget):
        left = budget
        while True:
            if not self.waiting or left <= 0:
                break
            if len(self.running) >= self.max_running:
                break
            first = self.waiting[0]
            if not self.can_begin(first, first.n_pending):
                break
            n = left if left < first.n_pending else first.n_pending
            first.table.append(n)
            self.running.append(self.waiting.popleft())
            plan.admitted.append(first)
            plan.work.append(Work(request=first, n_tokens=n))
            left -= n

    def preempt(self, request):
        request.table.release()
        request.n_computed = 0
        request.n_remembered = 0
        request.n_draft_computed = 0
        request.draft = []
        request.n_preemptions = request.n_preemptions + 1
        self.running.remove(request)
        self.waiting.insert(0, request)

    def schedule(self):
        plan = Plan()
        left = self.max_tokens_per_step
        # Who is preempted goes from the end of `running`, so that this loop does not meet it any more.
        for request in self.running:
            if not request.is_decoding or left == 0:
                continue
            n = self._make_room(request, min(left, request.n_pending), plan)
            if n > 0:
                plan.copies.extend(request.table.append(n))
                plan.work.append(Work(request, n))
                left -= n
        left -= self._admit_a_short_one(plan, left)
        prompts = [r for r in self.running if not (r.is_decoding or r in plan.admitted)]
        for request, share in prompt_shares(prompts, left, self.max_overtakes != 0):
            n = self._room(request, share)
            if n:
                plan.copies.extend(request.table.append(n))
                plan.work.append(Work(request, n))
                left -= n
        if len(plan.preempted) == 0 and left > 0 and self.waiting:
            self.admit(plan, left)
        if not plan.work and self.running:
            return self._again(plan)
        return plan


# %% a helper for each step, and the budget counted from the plan
def tokens_in(plan):
    return sum(work.n_tokens for work in plan.work)


class Scheduler:
    def admit(self, plan, budget):
        before = tokens_in(plan)
        while self.waiting and self._place_for(self.waiting[0], budget - tokens_in(plan) + before):
            newcomer = self.waiting.popleft()
            n = min(newcomer.n_pending, budget - tokens_in(plan) + before)
            self.running += [newcomer]
            plan.admitted += [newcomer]
            newcomer.table.append(n)
            plan.work += [Work(newcomer, n)]

    def _place_for(self, request, left):
        return left > 0 and len(self.running) < self.max_running and self.can_begin(request, request.n_pending)

    def preempt(self, request):
        i = self.running.index(request)
        del self.running[i]
        self._forget_blocks(request)
        request.draft = list()
        request.n_preemptions += 1
        self.waiting.extendleft([request])

    def _left(self, plan):
        return self.max_tokens_per_step - tokens_in(plan)

    def _those_that_write(self, plan):
        for request in list(self.running):
            if request.is_decoding and self._left(plan) and request not in plan.preempted:
                wanted = min(request.n_pending, self._left(plan))
                self._run(request, self._make_room(request, wanted, plan), plan)

    def _those_that_read(self, plan):
        reading = [r for r in self.running if not r.is_decoding and r not in plan.admitted]
        for request, n in prompt_shares(reading, budget=self._left(plan), fair=bool(self.max_overtakes)):
            self._run(request, self._room(request, n), plan)

    def schedule(self):
        plan = Plan()
        self._those_that_write(plan)
        self._admit_a_short_one(plan, self._left(plan))
        self._those_that_read(plan)
        if not plan.preempted:
            self.admit(plan, self._left(plan))
        if plan.work:
            return plan
        return self._again(plan) if self.running else plan


# %% recursion in admit, positions in a list, a print
class Scheduler:
    def admit(self, plan, budget):
        if budget <= 0 or not self.waiting or len(self.running) == self.max_running:
            return
        request, *_ = self.waiting
        pending = request.n_pending
        if self.can_begin(request, pending):
            n = min(pending, budget)
            self.waiting.remove(request)
            self.running.append(request)
            request.table.append(n)
            plan.work.append(Work(request, n))
            plan.admitted.append(request)
            self.admit(plan, budget - n)

    def preempt(self, request):
        print("preempted:", request)
        self.running.pop(self.running.index(request))
        self.waiting.appendleft(request)
        self._forget_blocks(request)
        request.draft.clear()
        request.n_preemptions += 1

    def schedule(self):
        plan, used = Plan(), 0
        decoding = [i for i in range(len(self.running)) if self.running[i].is_decoding]
        for i in decoding:
            if i >= len(self.running) or used == self.max_tokens_per_step:
                break
            request = self.running[i]
            n = self._make_room(request, min(request.n_pending, self.max_tokens_per_step - used), plan)
            used += self._run(request, n, plan)
        used += self._admit_a_short_one(plan, self.max_tokens_per_step - used)
        prompts = []
        for request in self.running:
            if not request.is_decoding and not any(request is other for other in plan.admitted):
                prompts.append(request)
        for request, n in prompt_shares(prompts, self.max_tokens_per_step - used, fair=self.max_overtakes > 0):
            used += self._run(request, self._room(request, n), plan)
        if not plan.preempted:
            self.admit(plan=plan, budget=self.max_tokens_per_step - used)
        if self.running and not plan.work:
            plan = self._again(plan)
        return plan


# %% work collected first, and a local function for the steps
class Scheduler:
    def admit(self, plan, budget):
        places = self.max_running - len(self.running)
        for request in list(self.waiting)[: max(0, places)]:
            if budget < 1 or not self.can_begin(request, request.n_pending):
                return
            n = min(budget, request.n_pending)
            budget -= n
            assert self.waiting.popleft() is request
            self.running.append(request)
            plan.admitted.append(request)
            request.table.append(n)
            plan.work.append(Work(request, n))

    def preempt(self, request):
        self.running[:] = [other for other in self.running if other is not request]
        self.waiting = deque([request, *self.waiting])
        request.table.truncate(0)
        request.n_computed = request.n_remembered = request.n_draft_computed = 0
        request.draft, request.n_preemptions = [], request.n_preemptions + 1

    def schedule(self):
        plan = Plan()
        budget = self.max_tokens_per_step

        def run(request, n):
            nonlocal budget
            if n < 1:
                return
            copies = request.table.append(n)
            plan.copies.extend(copies)
            plan.work.append(Work(request, n))
            budget -= n

        writers = deque(request for request in self.running if request.is_decoding)
        while writers and budget > 0:
            request = writers.popleft()
            if request in self.running:
                run(request, self._make_room(request, min(budget, request.n_pending), plan))
        if budget > 0:
            budget -= self._admit_a_short_one(plan, budget)
        old = [request for request in self.running if request not in plan.admitted and not request.is_decoding]
        for request, n in prompt_shares(old, budget, fair=self.max_overtakes >= 1):
            run(request, self._room(request, n))
        if not plan.preempted:
            self.admit(plan, budget)
        nobody = not plan.work
        return self._again(plan) if nobody and self.running else plan
